//! Output that is kept instead of printed, until it is taken.

use super::printer::Printer;

/// While it exists, the printer keeps what it is given.
pub(crate) struct HeldOutput<'p>(&'p Printer);

impl<'p> HeldOutput<'p> {
    /// Begins to keep output.
    pub(crate) fn begin(printer: &'p Printer) -> Self {
        printer.hold();
        Self(printer)
    }

    /// Returns the results and the messages so far, and ends.
    pub(crate) fn take(self) -> (String, String) {
        self.0.release()
    }
}

impl Drop for HeldOutput<'_> {
    fn drop(&mut self) {
        drop(self.0.release());
    }
}
