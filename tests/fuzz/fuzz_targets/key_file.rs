#![no_main]

verdigris_fuzz::target!(key_file);
