//! The `hotcell` program from outside: at a terminal, in pipes, interrupted, killed.
//!
//! `HOTCELL_BIN` names the program to test; the default is the one built with the tests.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod agent_input;
mod any_walls;
mod audit_verify;
mod backends;
mod bad_input;
mod chat;
mod chat_jobs;
mod chat_terminal;
mod choice_of_walls;
mod demo;
mod doctor;
mod documents;
mod endings;
mod escapes;
mod exec;
mod forbidden;
mod hosted;
mod image;
mod interrupted;
mod json_events;
mod killed;
mod killed_sessions;
mod left_behind;
mod limits;
mod pages;
mod place;
mod programs;
mod prompts;
mod resume;
mod rules;
mod sample_tasks;
mod scene;
mod secrets;
mod sessions;
mod settings;
mod signals;
mod terminal;
mod terminal_user;
mod undo;
mod walls_under_test;
