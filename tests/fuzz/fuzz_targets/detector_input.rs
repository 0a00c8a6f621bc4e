#![no_main]

verdigris_fuzz::target!(detector_input);
