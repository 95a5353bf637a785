//! A list to choose from, with a search query. Independent of the kind of rows.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Rows, the chosen one, and the query.
#[derive(Debug)]
pub(crate) struct Picker<Row> {
    /// The query.
    query: String,
    rows: Vec<Row>,
    /// Indices of the rows that match the query.
    filtered: Vec<usize>,
    selected: usize,
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
            query: String::new(),
            rows: Vec::new(),
            filtered: Vec::new(),
            selected: 0,
            first: 0,
            height: 1,
            state: PickerState::Waiting,
        }
    }
}

impl<Row> Picker<Row> {
    pub(crate) fn query(&self) -> &str {
        &self.query
    }

    pub(crate) fn state(&self) -> &PickerState {
        &self.state
    }

    pub(crate) fn selected(&self) -> Option<&Row> {
        self.rows.get(*self.filtered.get(self.selected)?)
    }

    /// Number of matching rows, and of all rows.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.filtered.len(), self.rows.len())
    }

    /// The visible rows; true for the chosen one.
    pub(crate) fn visible(&self) -> impl Iterator<Item = (bool, &Row)> {
        let shown = self.filtered.iter().enumerate();
        shown
            .skip(self.first)
            .take(self.height)
            .filter_map(|(index, row)| Some((index == self.selected, self.rows.get(*row)?)))
    }

    /// Sets the rows. The chosen row stays chosen if `is_same` finds it among them.
    pub(crate) fn fill(&mut self, rows: Vec<Row>, is_same: impl Fn(&Row, &Row) -> bool) {
        let index = self
            .selected()
            .and_then(|old| rows.iter().position(|new| is_same(old, new)));
        self.filtered = (0..rows.len()).collect();
        self.rows = rows;
        self.state = PickerState::Here;
        self.selected = index.unwrap_or(0);
        self.keep_in_view();
    }

    /// The request failed. Rows that have already arrived stay.
    pub(crate) fn fail(&mut self, reason: &str) {
        if self.state == PickerState::Waiting {
            self.state = PickerState::Failed(reason.to_owned());
        }
    }

    /// Filters the rows.
    pub(crate) fn filter_rows(&mut self, is_match: impl Fn(&Row) -> bool) {
        let rows = self.rows.iter().enumerate();
        self.filtered = rows
            .filter_map(|(index, row)| is_match(row).then_some(index))
            .collect();
        self.selected = 0;
        self.first = 0;
    }

    pub(crate) fn arrange(&mut self, height: usize) {
        self.height = height;
        self.keep_in_view();
    }

    pub(crate) fn step(&mut self, rows: isize) -> PickerStep {
        let last = self.filtered.len().saturating_sub(1);
        let selected = self.selected.saturating_add_signed(rows).min(last);
        let is_moved = selected != self.selected;
        self.selected = selected;
        self.keep_in_view();
        if is_moved {
            PickerStep::Moved
        } else {
            PickerStep::Nothing
        }
    }

    pub(crate) fn paste(&mut self, text: &str) -> PickerStep {
        let line = text.lines().next().unwrap_or_default();
        self.query
            .extend(line.chars().filter(|character| !character.is_control()));
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
            KeyCode::Backspace => match self.query.pop() {
                Some(_) => PickerStep::Typed,
                None => PickerStep::Nothing,
            },
            KeyCode::Char('u') if control => {
                self.query.clear();
                PickerStep::Typed
            }
            KeyCode::Char('w') if control => {
                let rest = self.query.trim_end();
                let end = rest.rfind(char::is_whitespace).map_or(0, |space| space + 1);
                self.query.truncate(end);
                PickerStep::Typed
            }
            KeyCode::Char(character) if (key.modifiers - KeyModifiers::SHIFT).is_empty() => {
                self.query.push(character);
                PickerStep::Typed
            }
            _ => PickerStep::Nothing,
        }
    }

    fn keep_in_view(&mut self) {
        self.selected = self.selected.min(self.filtered.len().saturating_sub(1));
        let height = self.height.max(1);
        let lowest = (self.selected + 1).saturating_sub(height);
        let highest = self
            .filtered
            .len()
            .saturating_sub(height)
            .min(self.selected);
        self.first = self.first.clamp(lowest.min(highest), self.selected);
        self.first = self.first.max(lowest).min(highest.max(lowest));
    }
}

/// Whether a text contains all words, ignoring case.
pub(crate) fn has_words(text: &str, query: &str) -> bool {
    let text = text.to_lowercase();
    query
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
        (rows, picker.selected().copied())
    }

    #[test]
    fn the_selected_row_stays_in_view() {
        #[track_caller]
        fn check(steps: &[isize], expect: &[usize], selected: usize) {
            let mut picker = picker(10, 3);
            for step in steps {
                picker.step(*step);
            }
            assert_eq!(view(&picker), (expect.to_vec(), Some(selected)));
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
    fn a_smaller_window_and_fewer_rows_keep_a_selection() {
        let mut picker = picker(10, 5);
        picker.step(4);
        picker.arrange(2);
        assert_eq!(view(&picker), (vec![3, 4], Some(4)));
        picker.arrange(0);
        assert_eq!(view(&picker), (vec![], Some(4)));
        picker.arrange(5);
        picker.fill(vec![1, 4], |old, new| old == new);
        assert_eq!(view(&picker), (vec![1, 4], Some(4)), "the same one");
        picker.filter_rows(|row| *row == 1);
        assert_eq!(view(&picker), (vec![1], Some(1)));
        picker.filter_rows(|_| false);
        assert_eq!(view(&picker), (vec![], None));
        assert_eq!(picker.step(1), PickerStep::Nothing);
    }

    #[test]
    fn the_query_is_edited_at_its_end() {
        let mut picker = picker(1, 1);
        for character in "two words".chars() {
            picker.key(KeyEvent::from(KeyCode::Char(character)));
        }
        picker.key(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(picker.query(), "two ");
        picker.paste("pasted\nand more");
        assert_eq!(picker.query(), "two pasted");
        picker.key(KeyEvent::from(KeyCode::Backspace));
        assert_eq!(picker.query(), "two paste");
        picker.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(picker.query(), "");
        assert_eq!(
            picker.key(KeyEvent::from(KeyCode::Backspace)),
            PickerStep::Nothing
        );
    }

    #[test]
    fn all_words_of_the_query_must_match() {
        for (text, query, expect) in [
            ("Fix the Parser", "parser fix", true),
            ("Fix the Parser", "", true),
            ("Fix the Parser", "fix lexer", false),
        ] {
            assert_eq!(has_words(text, query), expect, "{query}");
        }
    }
}
