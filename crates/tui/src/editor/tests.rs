//! What keys, pastes and moves make of the text.
