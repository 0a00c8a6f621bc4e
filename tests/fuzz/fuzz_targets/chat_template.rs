#![no_main]

verdigris_fuzz::target!(catching chat_template);
