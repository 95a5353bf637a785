//! Tests of markdown.
