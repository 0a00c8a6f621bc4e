#![no_main]

verdigris_fuzz::target!(catching tokenizer_file);
