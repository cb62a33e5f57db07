"""Row sources of joins: what is new, what is kept, who may meet whom."""
