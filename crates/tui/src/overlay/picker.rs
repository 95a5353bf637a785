//! A list to choose from, with a search query. Independent of the kind of rows.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Rows, the chosen one, and the query.
#[derive(Debug)]
pub(crate) struct Picker<Row> {
    /// The query.
    words: String,
    rows: Vec<Row>,
    /// Indices of the rows that match the query.
    kept: Vec<usize>,
    chosen: usize,
    /// First visible row.
    first: usize,
    /// Number of visible rows in the last layout.
    height: usize,
    state: PickerState,
}

/// Whether the rows have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PickerState {
    /// Requested.
    Waiting,
    Here,
    /// The request failed.
    Failed(String),
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PickerStep {
    Nothing,
    /// The selection moved.
    Moved,
    /// The query changed.
    Typed,
    Taken,
    Closed,
}

impl<Row> Default for Picker<Row> {
    fn default() -> Self {
        Self {
            words: String::new(),
            rows: Vec::new(),
            kept: Vec::new(),
            chosen: 0,
            first: 0,
            height: 1,
            state: PickerState::Waiting,
        }
    }
}

impl<Row> Picker<Row> {
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    pub(crate) fn state(&self) -> &PickerState {
        &self.state
    }

    pub(crate) fn chosen(&self) -> Option<&Row> {
        self.rows.get(*self.kept.get(self.chosen)?)
    }

    /// Number of matching rows, and of all rows.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.kept.len(), self.rows.len())
    }

    /// The visible rows; true for the chosen one.
    pub(crate) fn visible(&self) -> impl Iterator<Item = (bool, &Row)> {
        let shown = self.kept.iter().enumerate();
        shown
            .skip(self.first)
            .take(self.height)
            .filter_map(|(place, row)| Some((place == self.chosen, self.rows.get(*row)?)))
    }

    /// Sets the rows. The chosen row stays chosen if `is_same` finds it among them.
    pub(crate) fn fill(&mut self, rows: Vec<Row>, is_same: impl Fn(&Row, &Row) -> bool) {
        let place = self
            .chosen()
            .and_then(|old| rows.iter().position(|new| is_same(old, new)));
        self.kept = (0..rows.len()).collect();
        self.rows = rows;
        self.state = PickerState::Here;
        self.chosen = place.unwrap_or(0);
        self.keep_in_view();
    }

    /// The request failed. Rows that have already arrived stay.
    pub(crate) fn fail(&mut self, reason: &str) {
        if self.state == PickerState::Waiting {
            self.state = PickerState::Failed(reason.to_owned());
        }
    }

    /// Filters the rows.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(&Row) -> bool) {
        let rows = self.rows.iter().enumerate();
        self.kept = rows
            .filter_map(|(place, row)| is_kept(row).then_some(place))
            .collect();
        self.chosen = 0;
        self.first = 0;
    }

    pub(crate) fn arrange(&mut self, height: usize) {
        self.height = height;
        self.keep_in_view();
    }

    pub(crate) fn step(&mut self, rows: isize) -> PickerStep {
        let last = self.kept.len().saturating_sub(1);
        let chosen = self.chosen.saturating_add_signed(rows).min(last);
        let is_moved = chosen != self.chosen;
        self.chosen = chosen;
        self.keep_in_view();
        if is_moved {
            PickerStep::Moved
        } else {
            PickerStep::Nothing
        }
    }

    pub(crate) fn paste(&mut self, text: &str) -> PickerStep {
        let line = text.lines().next().unwrap_or_default();
        self.words
            .extend(line.chars().filter(|letter| !letter.is_control()));
        PickerStep::Typed
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> PickerStep {
        let page = isize::try_from(self.height.max(2) - 1).unwrap_or(isize::MAX);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => PickerStep::Closed,
            KeyCode::Char('c' | 'd' | 'g') if control => PickerStep::Closed,
            KeyCode::Enter => PickerStep::Taken,
            KeyCode::Up | KeyCode::BackTab => self.step(-1),
            KeyCode::Down | KeyCode::Tab => self.step(1),
            KeyCode::Char('p' | 'k') if control => self.step(-1),
            KeyCode::Char('n' | 'j') if control => self.step(1),
            KeyCode::PageUp => self.step(-page),
            KeyCode::PageDown => self.step(page),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Backspace => match self.words.pop() {
                Some(_) => PickerStep::Typed,
                None => PickerStep::Nothing,
            },
            KeyCode::Char('u') if control => {
                self.words.clear();
                PickerStep::Typed
            }
            KeyCode::Char('w') if control => {
                let kept = self.words.trim_end();
                let end = kept.rfind(char::is_whitespace).map_or(0, |space| space + 1);
                self.words.truncate(end);
                PickerStep::Typed
            }
            KeyCode::Char(letter) if (key.modifiers - KeyModifiers::SHIFT).is_empty() => {
                self.words.push(letter);
                PickerStep::Typed
            }
            _ => PickerStep::Nothing,
        }
    }

    fn keep_in_view(&mut self) {
        self.chosen = self.chosen.min(self.kept.len().saturating_sub(1));
        let height = self.height.max(1);
        let lowest = (self.chosen + 1).saturating_sub(height);
        let highest = self.kept.len().saturating_sub(height).min(self.chosen);
        self.first = self.first.clamp(lowest.min(highest), self.chosen);
        self.first = self.first.max(lowest).min(highest.max(lowest));
    }
}

/// Whether a text contains all words, ignoring case.
pub(crate) fn has_words(text: &str, words: &str) -> bool {
    let text = text.to_lowercase();
    words
        .split_whitespace()
        .all(|word| text.contains(&word.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picker(rows: usize, height: usize) -> Picker<usize> {
        let mut picker = Picker::default();
        picker.arrange(height);
        picker.fill((0..rows).collect(), |old, new| old == new);
        picker
    }

    fn view(picker: &Picker<usize>) -> (Vec<usize>, Option<usize>) {
        let rows = picker.visible().map(|(_, row)| *row).collect();
        (rows, picker.chosen().copied())
    }

    #[test]
    fn the_chosen_row_stays_in_view() {
        #[track_caller]
        fn check(steps: &[isize], expect: &[usize], chosen: usize) {
            let mut picker = picker(10, 3);
            for step in steps {
                picker.step(*step);
            }
            assert_eq!(view(&picker), (expect.to_vec(), Some(chosen)));
        }
        check(&[], &[0, 1, 2], 0);
        check(&[2], &[0, 1, 2], 2);
        check(&[3], &[1, 2, 3], 3);
        check(&[3, -1], &[1, 2, 3], 2);
        check(&[3, -3], &[0, 1, 2], 0);
        check(&[isize::MAX], &[7, 8, 9], 9);
        check(&[isize::MAX, isize::MIN], &[0, 1, 2], 0);
    }

    #[test]
    fn a_smaller_window_and_fewer_rows_keep_a_choice() {
        let mut picker = picker(10, 5);
        picker.step(4);
        picker.arrange(2);
        assert_eq!(view(&picker), (vec![3, 4], Some(4)));
        picker.arrange(0);
        assert_eq!(view(&picker), (vec![], Some(4)));
        picker.arrange(5);
        picker.fill(vec![1, 4], |old, new| old == new);
        assert_eq!(view(&picker), (vec![1, 4], Some(4)), "the same one");
        picker.keep(|row| *row == 1);
        assert_eq!(view(&picker), (vec![1], Some(1)));
        picker.keep(|_| false);
        assert_eq!(view(&picker), (vec![], None));
        assert_eq!(picker.step(1), PickerStep::Nothing);
    }

    #[test]
    fn words_are_edited_at_their_end() {
        let mut picker = picker(1, 1);
        for letter in "two words".chars() {
            picker.key(KeyEvent::from(KeyCode::Char(letter)));
        }
        picker.key(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(picker.words(), "two ");
        picker.paste("pasted\nand more");
        assert_eq!(picker.words(), "two pasted");
        picker.key(KeyEvent::from(KeyCode::Backspace));
        assert_eq!(picker.words(), "two paste");
        picker.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(picker.words(), "");
        assert_eq!(
            picker.key(KeyEvent::from(KeyCode::Backspace)),
            PickerStep::Nothing
        );
    }

    #[test]
    fn all_words_must_be_there() {
        for (text, words, expect) in [
            ("Fix the Parser", "parser fix", true),
            ("Fix the Parser", "", true),
            ("Fix the Parser", "fix lexer", false),
        ] {
            assert_eq!(has_words(text, words), expect, "{words}");
        }
    }
}
