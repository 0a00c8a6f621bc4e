#![no_main]

verdigris_fuzz::target!(structural_tag);
