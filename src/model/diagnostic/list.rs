//! [`Diagnostics`], the problems of one run.
//!
//! Only the first [`MAX_DIAGNOSTICS`] are kept, and the rest is counted, so an input costs no more
//! memory and text than a person reads. An error takes the place of a warning.

use super::report::{Diagnostic, Severity};

/// The number of problems that are kept.
pub const MAX_DIAGNOSTICS: usize = 1000;

/// A list of diagnostics in the order of detection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    omitted: OmittedCount,
}

/// The length of a list at one time.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticsLength {
    kept: usize,
    omitted: OmittedCount,
}

/// The number of problems that are only counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OmittedCount {
    errors: usize,
    warnings: usize,
}

impl OmittedCount {
    fn of(&mut self, severity: Severity) -> &mut usize {
        match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        }
    }
}

impl Diagnostics {
    /// Adds a diagnostic, or counts it if the list is full.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if !self.is_full() {
            return self.list.push(diagnostic);
        }
        let is_warning = |one: &Diagnostic| one.severity == Severity::Warning;
        // Once an error was omitted, the list holds no warning.
        let gives_way = match diagnostic.severity {
            Severity::Error if self.omitted.errors == 0 => self.list.iter().rposition(is_warning),
            Severity::Error | Severity::Warning => None,
        };
        match gives_way {
            Some(at) => {
                self.list.remove(at);
                self.list.push(diagnostic);
                self.omitted.warnings += 1;
            }
            None => *self.omitted.of(diagnostic.severity) += 1,
        }
    }

    /// Adds all diagnostics of another list.
    pub fn extend(&mut self, others: Self) {
        self.omitted.errors += others.omitted.errors;
        self.omitted.warnings += others.omitted.warnings;
        others.list.into_iter().for_each(|one| self.push(one));
    }

    /// Returns whether further problems are only counted.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_DIAGNOSTICS
    }

    /// Returns the current length, for [`Self::truncate`].
    pub fn length(&self) -> DiagnosticsLength {
        DiagnosticsLength { kept: self.list.len(), omitted: self.omitted }
    }

    /// Removes the diagnostics that were added since, of a list that has errors only.
    pub fn truncate(&mut self, length: DiagnosticsLength) {
        self.list.truncate(length.kept);
        self.omitted = length.omitted;
    }

    /// Returns whether any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// Returns the number of all problems of a severity, including omitted ones.
    pub fn count(&self, severity: Severity) -> usize {
        let kept = self.list.iter().filter(|one| one.severity == severity);
        let mut omitted = self.omitted;
        kept.count() + *omitted.of(severity)
    }

    /// Returns the number of problems that are only counted.
    pub fn omitted(&self) -> usize {
        self.omitted.errors + self.omitted.warnings
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates over the kept diagnostics.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Changes every kept diagnostic.
    #[must_use]
    pub fn map(self, change: impl FnMut(Diagnostic) -> Diagnostic) -> Self {
        Self { list: self.list.into_iter().map(change).collect(), omitted: self.omitted }
    }

    /// Removes the kept diagnostics for which `is_kept` does not hold.
    #[must_use]
    pub fn retain(self, is_kept: impl Fn(&Diagnostic) -> bool) -> Self {
        let Self { mut list, omitted } = self;
        list.retain(is_kept);
        Self { list, omitted }
    }

    /// Sorts the diagnostics by their first place. Those without a place come first.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| label.span));
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        [diagnostic].into_iter().collect()
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(list: I) -> Self {
        let mut diagnostics = Self::default();
        list.into_iter().for_each(|one| diagnostics.push(one));
        diagnostics
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;

    fn error(at: usize) -> Diagnostic {
        Diagnostic::error(Code::Internal, format!("error {at}"))
    }

    fn warning(at: usize) -> Diagnostic {
        Diagnostic::warning(Code::Internal, format!("warning {at}"))
    }

    #[test]
    fn the_first_thousand_problems_are_kept_and_the_rest_is_counted() {
        let of = |count: usize| (0..count).map(error).collect::<Diagnostics>();
        let full = of(MAX_DIAGNOSTICS);
        assert_eq!((full.iter().count(), full.omitted()), (1000, 0));
        let mut more = of(MAX_DIAGNOSTICS + 1);
        assert_eq!((more.iter().count(), more.omitted()), (1000, 1));
        more.extend(of(MAX_DIAGNOSTICS + 2));
        assert_eq!(more.count(Severity::Error), 2003);
        assert_eq!(more.iter().last().unwrap().message, "error 999");
        assert_eq!(more.clone().map(|one| one).omitted(), 1003);
        let length = more.length();
        more.push(error(1));
        more.truncate(length);
        assert_eq!(more.omitted(), 1003);
        more.truncate(Diagnostics::default().length());
        assert!(more.is_empty() && !more.has_errors());
    }

    #[test]
    fn an_error_takes_the_place_of_a_warning() {
        let mut all: Diagnostics = (0..MAX_DIAGNOSTICS + 5).map(warning).collect();
        assert!(!all.has_errors());
        all.push(error(1));
        assert!(all.has_errors());
        assert_eq!(all.count(Severity::Warning), 1005);
        assert_eq!((all.iter().count(), all.omitted()), (1000, 6));
        assert_eq!(all.iter().last().unwrap().message, "error 1");
        (0..MAX_DIAGNOSTICS).for_each(|at| all.push(error(at)));
        assert_eq!(all.count(Severity::Error), 1001);
        assert_eq!(all.count(Severity::Warning), 1005);
        assert!(all.iter().all(|one| one.severity == Severity::Error));
    }
}
