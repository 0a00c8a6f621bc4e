#![no_main]

verdigris_fuzz::target!(safetensors_file);
