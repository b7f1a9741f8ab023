"""Numbers about a document: kernels over UTF-8 buffers, language, domain, and the table of metrics."""
