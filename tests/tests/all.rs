//! Most suites: one test binary, since each takes as long to build as all of them.

mod draft_heads;
mod forms;
mod fuzz_seeds;
mod guides;
mod healing;
mod hostile;
mod judged;
mod links;
mod marks;
mod mutants;
mod mutations;
mod oracle;
mod requests;
mod schedule;
mod schemas;
mod speculation;
mod steering;
mod typed;
