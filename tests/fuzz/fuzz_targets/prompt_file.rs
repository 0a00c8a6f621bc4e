#![no_main]

verdigris_fuzz::target!(prompt_file);
