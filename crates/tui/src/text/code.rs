//! Source code in colours.
