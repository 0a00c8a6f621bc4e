#![no_main]

verdigris_fuzz::target!(catching gguf_head);
