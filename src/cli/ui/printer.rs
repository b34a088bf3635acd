//! stdout is data, stderr is talk.
//!
//! Everything that a person or a pipe reads goes through one [`Printer`], so that progress lines,
//! log lines and results never cut into each other. Colours are written by everyone and taken away
//! here where they are not wanted. A reader that has gone away (`| head`) is no error: what follows
//! is dropped and the work goes on; any other failure of standard output is kept and ends the run
//! with an error (a full disk under `> volumes.json` must not look like success).

use std::io::{ErrorKind, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::MultiProgress;

/// Where bytes go, and whether it is a terminal.
pub(crate) struct Stream {
    /// The writer.
    pub writer: Box<dyn Write + Send>,
    /// Whether a person sees it at once.
    pub is_terminal: bool,
    /// Whether it is written in colour.
    pub colour: bool,
}

struct Target {
    writer: Box<dyn Write + Send>,
    /// Nobody reads it any more.
    closed: bool,
    failure: Option<std::io::Error>,
}

/// The two streams of one run.
pub(crate) struct Printer {
    out: Mutex<Target>,
    err: Mutex<Target>,
    bars: Mutex<Option<MultiProgress>>,
    colour_out: bool,
    colour_err: bool,
    live: bool,
    columns: usize,
}

impl Printer {
    /// Prints to these, `columns` wide. Lines move on a terminal that can move them (`live`).
    pub(crate) fn new(out: Stream, err: Stream, columns: usize, live: bool) -> Self {
        let (colour_out, colour_err) = (out.colour, err.colour);
        let live = live && err.is_terminal;
        let target = |stream: Stream| {
            Mutex::new(Target {
                writer: stream.writer,
                closed: false,
                failure: None,
            })
        };
        Self {
            out: target(out),
            err: target(err),
            bars: Mutex::new(None),
            colour_out,
            colour_err,
            live,
            columns,
        }
    }

    /// How wide to format.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Whether progress may be drawn over itself.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Writes data to standard output, exactly as it is but for colours.
    pub(crate) fn data(&self, text: &str) {
        self.around_bars(|| write(&self.out, text, self.colour_out));
    }

    /// Says something to people: one or several lines to standard error.
    pub(crate) fn talk(&self, text: &str) {
        let text = format!("{text}\n");
        self.around_bars(|| write(&self.err, &text, self.colour_err));
    }

    /// Asks without ending the line.
    pub(crate) fn ask(&self, text: &str) {
        self.around_bars(|| write(&self.err, text, self.colour_err));
    }

    /// Writes to standard error as it is: the progress lines themselves.
    pub(super) fn draw(&self, text: &str) {
        write(&self.err, text, true);
    }

    /// From now on these lines stand below everything else; `None` ends that.
    pub(super) fn set_bars(&self, bars: Option<MultiProgress>) {
        *lock(&self.bars) = bars;
    }

    /// The first failure of standard output, if there was one that is not a closed pipe.
    pub(crate) fn take_failure(&self) -> Option<std::io::Error> {
        lock(&self.out).failure.take()
    }

    fn around_bars(&self, print: impl FnOnce()) {
        let bars = lock(&self.bars).clone();
        match bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        }
    }
}

fn write(target: &Mutex<Target>, text: &str, colour: bool) {
    let mut target = lock(target);
    if target.closed {
        return;
    }
    let result = if colour {
        target.writer.write_all(text.as_bytes())
    } else {
        let plain = anstream::adapter::strip_str(text).to_string();
        target.writer.write_all(plain.as_bytes())
    };
    if let Err(error) = result.and_then(|()| target.writer.flush()) {
        target.closed = true;
        if error.kind() != ErrorKind::BrokenPipe {
            target.failure = Some(error);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes text from outside harmless on a terminal: control characters are shown, not obeyed.
/// Line ends and tabs stay.
pub(super) fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            c if c.is_ascii_control() => control_picture(c),
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// [`harmless`] on one line: for table cells and names in sentences.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_ascii_control() => control_picture(c),
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

fn control_picture(c: char) -> char {
    match c {
        '\u{7f}' => '\u{2421}',
        c => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Pipe {
        text: Arc<Mutex<Vec<u8>>>,
        breaks: Option<ErrorKind>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if let Some(kind) = self.breaks {
                return Err(kind.into());
            }
            self.text
                .lock()
                .expect("unpoisoned")
                .extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn printer(out: Pipe, colour: bool) -> Printer {
        let stream = |pipe: Pipe| Stream {
            writer: Box::new(pipe),
            is_terminal: false,
            colour,
        };
        Printer::new(stream(out), stream(Pipe::default()), 80, false)
    }

    #[test]
    fn colours_are_taken_away_where_they_are_not_wanted() {
        for (colour, expected) in [(true, "\u{1b}[1mbold\u{1b}[0m"), (false, "bold")] {
            let pipe = Pipe::default();
            printer(pipe.clone(), colour).data("\u{1b}[1mbold\u{1b}[0m");
            assert_eq!(
                pipe.text.lock().expect("unpoisoned").as_slice(),
                expected.as_bytes()
            );
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is_one() {
        for (kind, fails) in [
            (ErrorKind::BrokenPipe, false),
            (ErrorKind::StorageFull, true),
        ] {
            let pipe = Pipe {
                breaks: Some(kind),
                ..Pipe::default()
            };
            let printer = printer(pipe, false);
            printer.data("first");
            printer.data("second");
            assert_eq!(printer.take_failure().is_some(), fails, "{kind:?}");
        }
    }

    #[test]
    fn text_from_outside_cannot_steer_a_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\nc"), "a␛[2Jb\nc");
        assert_eq!(one_line("a\nb\u{9b}"), "a␊b\u{fffd}");
    }
}
