#![no_main]

verdigris_fuzz::target!(grammar);
