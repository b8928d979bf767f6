//! Rows of segments, one for each place.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Rows of values, one for each place. A row takes memory when something is first kept in it, and then keeps it: calls without
/// chunks, which most are, cost nothing.
#[derive(Debug)]
pub(super) struct Rows<T>(Box<[Vec<T>]>);

impl<T> Rows<T> {
    /// So many empty rows.
    pub(super) fn new(places: u32) -> Self {
        Self((0..places).map(|_| Vec::new()).collect())
    }

    /// What is kept in a row.
    pub(super) fn get(&self, place: usize) -> &[T] {
        self.0.get(place).map_or(&[], Vec::as_slice)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, place: usize) -> &mut [T] {
        self.0.get_mut(place).map_or(&mut [], Vec::as_mut_slice)
    }

    /// Empties a row.
    pub(super) fn clear(&mut self, place: usize) {
        if let Some(row) = self.0.get_mut(place) {
            row.clear();
        }
    }

    /// Adds values to a row: how many there may be is the caller's to bound.
    pub(super) fn extend(&mut self, place: usize, values: impl IntoIterator<Item = T>) {
        if let Some(row) = self.0.get_mut(place) {
            row.extend(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn a_row_has_what_was_added_since_it_was_cleared() {
        let mut rows = Rows::new(2);
        assert!(rows.get(1).is_empty());
        rows.extend(1, [1, 2, 3]);
        rows.clear(1);
        rows.extend(1, [4]);
        rows.extend(1, [5]);
        assert_eq!((rows.get(0), rows.get(1), rows.get(2)), ([].as_slice(), [4, 5].as_slice(), [].as_slice()));
    }
}
