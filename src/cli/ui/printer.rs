//! Standard output carries results, standard error carries status messages.
//!
//! All output goes through one [`Printer`], which keeps progress lines, log lines and results apart.
//! Text from outside may contain characters that a terminal obeys. The printer lets pass only line
//! ends, tabs and this program's colours, and shows all others as symbols. A status message and an event of the log
//! are one line each, so that no name in them begins another. In the log of a workflow, the printer breaks up what
//! the runner would take for a command ([`without_commands`]).
//! Callers always write colours; the printer removes them from streams without colours. A closed pipe
//! (`| head`) is not an error: the printer drops further output and the command continues. Any other
//! failure of standard output, such as a full disk, ends the run with an error.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};

use indicatif::MultiProgress;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use nomad_csi_model::one_line;
use nomad_csi_model::{is_invisible, visible_char};

/// An output stream and its properties.
pub(crate) struct PrinterStream {
    /// The writer.
    pub writer: Box<dyn Write + Send>,
    /// True if the stream is a terminal.
    pub is_terminal: bool,
    /// True if colours are written.
    pub colour: bool,
}

struct StreamState {
    writer: Box<dyn Write + Send>,
    /// True if the reader closed the stream.
    closed: bool,
    failure: Option<std::io::Error>,
}

/// The two streams of one run.
pub(crate) struct Printer {
    out: Mutex<StreamState>,
    err: Mutex<StreamState>,
    bars: Mutex<Option<MultiProgress>>,
    /// Results and messages that are kept for now.
    held: Mutex<Option<(String, String)>>,
    colour_out: bool,
    colour_err: bool,
    can_redraw: bool,
    out_is: OutputDevice,
    columns: usize,
    reader: OutputReader,
}

/// What standard output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputDevice {
    Terminal,
    /// A pipe or a file.
    Other,
}

/// Who reads the output first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputReader {
    /// A person, or a program that the person chose.
    Person,
    /// The runner of a workflow, which looks for commands in it.
    WorkflowRunner,
}

impl Printer {
    /// Returns a printer of lines up to `columns` wide. `can_redraw` enables live progress lines if
    /// `err` is a terminal.
    pub(crate) fn new(
        out: PrinterStream,
        err: PrinterStream,
        columns: usize,
        can_redraw: bool,
    ) -> Self {
        let (colour_out, colour_err) = (out.colour, err.colour);
        let can_redraw = can_redraw && err.is_terminal;
        let out_is = match out.is_terminal {
            true => OutputDevice::Terminal,
            false => OutputDevice::Other,
        };
        let target = |stream: PrinterStream| {
            Mutex::new(StreamState { writer: stream.writer, closed: false, failure: None })
        };
        Self {
            out: target(out),
            err: target(err),
            bars: Mutex::new(None),
            held: Mutex::new(None),
            colour_out,
            colour_err,
            can_redraw,
            out_is,
            columns,
            reader: OutputReader::Person,
        }
    }

    /// Sets who reads the output.
    #[must_use]
    pub(crate) fn read_by(self, reader: OutputReader) -> Self {
        Self { reader, ..self }
    }

    /// Returns the width of the output.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns true if progress lines can be redrawn in place.
    pub(crate) fn can_redraw(&self) -> bool {
        self.can_redraw
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out_is == OutputDevice::Terminal
    }

    /// Returns true if results can be replaced by later ones.
    pub(crate) fn can_redraw_results(&self) -> bool {
        self.is_terminal() && self.can_redraw
    }

    /// Replaces what the terminal shows.
    pub(crate) fn replace_screen(&self, text: &str) {
        const CLEAR: &str = "\u{1b}[H\u{1b}[2J";
        let text = shown_text(text);
        let text = match self.colour_out {
            true => text.into_owned(),
            false => anstream::adapter::strip_str(&text).to_string(),
        };
        self.suspend_bars(|| write_raw(&self.out, &format!("{CLEAR}{text}"), true));
    }

    /// Keeps what is printed from now on.
    pub(super) fn hold(&self) {
        *lock(&self.held) = Some(<(String, String)>::default());
    }

    /// Returns the results and the messages that were kept, and keeps no more.
    pub(super) fn release(&self) -> (String, String) {
        lock(&self.held).take().unwrap_or_default()
    }

    /// Writes text to standard output, unchanged except for colours.
    pub(crate) fn print_result(&self, text: &str) {
        self.suspend_bars(|| self.write(&self.out, text, self.colour_out));
    }

    /// Writes text to standard output without any change: it is data for a program. Returns who would obey some of it, and
    /// then writes nothing: a terminal, or the runner of a workflow, whose log may be the output.
    pub(crate) fn print_exactly(&self, text: &str) -> Result<(), &'static str> {
        let plain = text.replace("\r\n", "\n");
        let is_obeyed = plain.contains('\u{1b}') || shown_text(&plain) != plain;
        if self.out_is == OutputDevice::Terminal && is_obeyed {
            return Err("a terminal");
        }
        if self.reader == OutputReader::WorkflowRunner && without_commands(text) != text {
            return Err("the runner of a workflow");
        }
        self.suspend_bars(|| write_raw(&self.out, text, true));
        Ok(())
    }

    /// Writes bytes to standard output without any change: they are those of a file. Returns false, and writes nothing, where
    /// some of them could be obeyed: by a terminal, or by the runner of a workflow.
    pub(crate) fn print_bytes(&self, bytes: &[u8]) -> bool {
        let is_data = self.out_is == OutputDevice::Other && self.reader == OutputReader::Person;
        if is_data {
            self.suspend_bars(|| write_bytes(&self.out, bytes));
        }
        is_data
    }

    /// Writes bytes to standard output, which a program reads while this one runs.
    ///
    /// # Errors
    /// If the program does not read any more.
    pub(crate) fn print_data(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.suspend_bars(|| write_bytes(&self.out, bytes));
        match lock(&self.out).closed {
            true => Err(ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }

    /// Writes commands to the workflow runner of GitHub, `::` at the start of each line, to standard output. Other
    /// commands in them are not meant.
    pub(crate) fn print_commands(&self, text: &str) {
        let text = without_bracketed_commands(&shown_text(text));
        self.suspend_bars(|| write_raw(&self.out, &text, self.colour_out));
    }

    /// Writes a message of one line to standard error.
    pub(crate) fn print_status(&self, message: &str) {
        self.print_lines(&in_one_line(message));
    }

    /// Writes a message of one line to standard error at once, also while other output is kept.
    pub(crate) fn print_notice(&self, message: &str) {
        let line = format!("{}\n", in_one_line(message));
        self.suspend_bars(|| self.write_through(&self.err, &line, self.colour_err));
    }

    /// Writes text of several lines, none of which begins with text from outside, and a line end to standard error.
    pub(crate) fn print_lines(&self, text: &str) {
        let text = format!("{text}\n");
        self.suspend_bars(|| self.write(&self.err, &text, self.colour_err));
    }

    /// Writes an event of the log to standard error.
    pub(crate) fn print_event(&self, event: &str) {
        self.print_status(event.strip_suffix('\n').unwrap_or(event));
    }

    /// Writes a prompt to standard error, without a line end.
    pub(crate) fn print_prompt(&self, text: &str) {
        let text = in_one_line(text);
        self.suspend_bars(|| self.write(&self.err, &text, self.colour_err));
    }

    /// Writes progress lines to standard error, with their control codes.
    pub(super) fn draw_progress(&self, text: &str) {
        write_raw(&self.err, text, true);
    }

    /// Sets the progress lines that stay below all other output; `None` removes them.
    pub(super) fn set_bars(&self, bars: Option<MultiProgress>) {
        *lock(&self.bars) = bars;
    }

    /// Returns the progress lines, if there are any.
    pub(super) fn bars(&self) -> Option<MultiProgress> {
        lock(&self.bars).clone()
    }

    /// Returns the first failure of standard output, except a closed pipe.
    pub(crate) fn take_output_error(&self) -> Option<std::io::Error> {
        lock(&self.out).failure.take()
    }

    /// Returns whether the reader of standard output is gone, so that further results are dropped.
    pub(crate) fn is_result_closed(&self) -> bool {
        lock(&self.out).closed
    }

    /// Writes text that a terminal only shows, and a workflow runner too.
    fn write(&self, target: &Mutex<StreamState>, text: &str, colour: bool) {
        if let Some((results, messages)) = &mut *lock(&self.held) {
            let kept = if std::ptr::eq(target, &raw const self.out) { results } else { messages };
            kept.push_str(text);
            return;
        }
        self.write_through(target, text, colour);
    }

    fn write_through(&self, target: &Mutex<StreamState>, text: &str, colour: bool) {
        let text = shown_text(text);
        match self.reader {
            OutputReader::Person => write_raw(target, &text, colour),
            OutputReader::WorkflowRunner => write_raw(target, &without_commands(&text), colour),
        }
    }

    fn suspend_bars(&self, print: impl FnOnce()) {
        let bars = lock(&self.bars).clone();
        match bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        }
    }
}

fn write_raw(target: &Mutex<StreamState>, text: &str, colour: bool) {
    if colour {
        write_bytes(target, text.as_bytes());
    } else {
        let plain = anstream::adapter::strip_str(text).to_string();
        write_bytes(target, plain.as_bytes());
    }
}

fn write_bytes(target: &Mutex<StreamState>, bytes: &[u8]) {
    let mut target = lock(target);
    if target.closed {
        return;
    }
    let result = target.writer.write_all(bytes);
    if let Err(error) = result.and_then(|()| target.writer.flush()) {
        target.closed = true;
        if error.kind() != ErrorKind::BrokenPipe {
            target.failure = Some(error);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Replaces invisible characters except line ends and tabs with visible symbols.
pub(super) fn escape_control_characters(text: &str) -> String {
    text.chars().map(shown_char).collect()
}

/// Replaces line ends with visible symbols, and leaves colours.
pub(super) fn in_one_line(text: &str) -> String {
    text.replace('\n', "␊").replace('\r', "␍")
}

/// Breaks up what the runner of GitHub or of Azure Pipelines takes for a command: `::` at the start of a line, after
/// blanks, and `##[` and `##vso[` anywhere in it. A colour within a command hides it, and is removed with all others.
pub(in crate::cli) fn without_commands(text: &str) -> String {
    let plain = anstream::adapter::strip_str(text).to_string();
    let lines = plain.split_inclusive('\n').map(|line| {
        let line = without_bracketed_commands(line);
        match line.trim_start().starts_with("::") {
            true => line.replacen("::", ": :", 1),
            false => line,
        }
    });
    let shown: String = lines.collect();
    match shown == plain {
        true => text.to_owned(),
        false => shown,
    }
}

/// Returns how many bytes at the end of a text may begin a command that the next piece of the text completes. Before the
/// text, its line has only blanks and colours if `is_blank_before`.
pub(in crate::cli) fn command_start(text: &str, is_blank_before: bool) -> usize {
    let (is_blank, line) = last_line(text, is_blank_before);
    let visible = visible_chars(line);
    let plain: String = visible.iter().map(|(_, c)| *c).collect();
    let begins = |length: &usize| {
        BRACKETED.iter().any(|command| {
            let start = command.get(..*length);
            *length < command.len() && start.is_some_and(|start| plain.ends_with(start))
        })
    };
    let is_colon = is_blank && plain.trim_start() == ":";
    let held = (1..BRACKETED[1].len()).rev().find(begins);
    let held = held.unwrap_or(usize::from(is_colon));
    let first = visible.len().checked_sub(held).and_then(|at| visible.get(at));
    first.map_or(0, |(at, _)| line.len() - at)
}

/// Returns whether the last line of a text has only blanks and colours.
pub(in crate::cli) fn ends_blank(text: &str, is_blank_before: bool) -> bool {
    let (is_blank, line) = last_line(text, is_blank_before);
    is_blank && visible_chars(line).iter().all(|(_, c)| c.is_whitespace())
}

/// Returns the last line of a text, and whether what is before the text in it is blank.
fn last_line(text: &str, is_blank_before: bool) -> (bool, &str) {
    match text.rsplit_once('\n') {
        Some((_, line)) => (true, line),
        None => (is_blank_before, text),
    }
}

/// Returns a line without its colours.
pub(in crate::cli) fn without_colours(line: &str) -> String {
    visible_chars(line).into_iter().map(|(_, c)| c).collect()
}

/// Returns the characters of a line without its colours, each with its place.
fn visible_chars(line: &str) -> Vec<(usize, char)> {
    let mut visible = vec![];
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        match colour_length(&line[at..]) {
            0 => {
                visible.push((at, c));
                at += c.len_utf8();
            }
            length => at += length,
        }
    }
    visible
}

/// The beginnings of a command anywhere in a line, the shorter one first.
const BRACKETED: [&str; 2] = ["##[", "##vso["];

fn without_bracketed_commands(text: &str) -> String {
    text.replace("##[", "## [").replace("##vso[", "## vso[")
}

fn shown_char(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        c => visible_char(c),
    }
}

/// Replaces invisible characters except line ends, tabs and colours with visible symbols.
fn shown_text(text: &str) -> Cow<'_, str> {
    let passes = |c: char| matches!(c, '\n' | '\t') || !is_invisible(c);
    if text.chars().all(passes) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = colour_length(rest);
        if length > 0 {
            shown.push_str(&rest[..length]);
            rest = &rest[length..];
        } else {
            shown.push(shown_char(c));
            rest = &rest[c.len_utf8()..];
        }
    }
    Cow::Owned(shown)
}

/// Returns the length of the colour at the start of a text: `ESC [ numbers m`, with the numbers that
/// this program writes. None of them hides text. Zero if there is none.
fn colour_length(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let length = numbers.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(numbers.len());
    let is_hidden = |number: &str| {
        let number = number.parse().unwrap_or(0_u8);
        matches!(number, 5..=8 | 10..=20 | 50..=74)
    };
    // The numbers after 38 and 48 name a colour.
    let mut styles =
        numbers[..length].split(';').take_while(|number| !matches!(*number, "38" | "48"));
    let is_colour = numbers[length..].starts_with('m') && !styles.any(is_hidden);
    if is_colour { 3 + length } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Pipe {
        text: Arc<Mutex<Vec<u8>>>,
        failure: Option<ErrorKind>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if let Some(kind) = self.failure {
                return Err(kind.into());
            }
            self.text.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn printer(out: Pipe, colour: bool) -> Printer {
        let stream =
            |pipe: Pipe| PrinterStream { writer: Box::new(pipe), is_terminal: false, colour };
        Printer::new(stream(out), stream(Pipe::default()), 80, false)
    }

    #[test]
    fn colours_are_removed_from_streams_without_colours() {
        for (colour, expected) in [(true, "\u{1b}[1mbold\u{1b}[0m"), (false, "bold")] {
            let pipe = Pipe::default();
            printer(pipe.clone(), colour).print_result("\u{1b}[1mbold\u{1b}[0m");
            assert_eq!(pipe.text.lock().as_slice(), expected.as_bytes());
        }
    }

    #[test]
    fn a_stream_receives_only_text_and_colours() {
        for (text, expected) in [
            ("\u{1b}[1;31mred\u{1b}[0m\n\ta", "\u{1b}[1;31mred\u{1b}[0m\n\ta"),
            ("\u{1b}[m\u{1b}[38;5;4mx", "\u{1b}[m\u{1b}[38;5;4mx"),
            ("a\u{1b}[2J\u{1b}]0;t\u{7}", "a␛[2J␛]0;t␇"),
            ("a\u{1b}[8mb\u{1b}[31", "a␛[8mb␛[31"),
            ("a\u{9b}31mb\u{202e}c\u{200b}d\r", "a\u{fffd}31mb\u{fffd}c\u{fffd}d␍"),
        ] {
            let pipe = Pipe::default();
            printer(pipe.clone(), true).print_result(text);
            let bytes = pipe.text.lock().clone();
            assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{text:?}");
        }
    }

    /// Text from outside, in a result and in a report that consists of commands.
    #[test]
    fn only_the_commands_of_the_program_reach_a_workflow_runner() {
        let text = "::error::a ##vso[task.prependpath]/evil ##[command]b\n";
        let broken = "error::a ## vso[task.prependpath]/evil ## [command]b\n";
        let printed = |print: fn(&Printer, &str)| {
            let pipe = Pipe::default();
            let printer = printer(pipe.clone(), false).read_by(OutputReader::WorkflowRunner);
            print(&printer, text);
            let bytes = pipe.text.lock().clone();
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(printed(Printer::print_result), format!(": :{broken}"));
        assert_eq!(printed(Printer::print_commands), format!("::{broken}"));
    }

    /// A copy of a file is that file, and nothing in it is obeyed.
    #[test]
    fn bytes_are_written_as_they_are_or_not_at_all() {
        let bytes = b"\xff\x1b[31m::error::a\n";
        for (is_terminal, reader, is_written) in [
            (false, OutputReader::Person, true),
            (true, OutputReader::Person, false),
            (false, OutputReader::WorkflowRunner, false),
        ] {
            let pipe = Pipe::default();
            let stream =
                |pipe: Pipe| PrinterStream { writer: Box::new(pipe), is_terminal, colour: false };
            let printer = Printer::new(stream(pipe.clone()), stream(Pipe::default()), 80, false);
            assert_eq!(printer.read_by(reader).print_bytes(bytes), is_written);
            let expected: &[u8] = if is_written { bytes } else { b"" };
            assert_eq!(pipe.text.lock().as_slice(), expected, "{is_terminal} {reader:?}");
        }
    }

    #[test]
    fn a_full_disk_is_a_failure_and_a_closed_pipe_is_not() {
        for (kind, fails) in [(ErrorKind::BrokenPipe, false), (ErrorKind::StorageFull, true)] {
            let pipe = Pipe { failure: Some(kind), ..Pipe::default() };
            let printer = printer(pipe, false);
            printer.print_result("first");
            printer.print_result("second");
            assert_eq!(printer.take_output_error().is_some(), fails, "{kind:?}");
        }
    }

    #[test]
    fn control_characters_of_external_text_are_escaped() {
        assert_eq!(escape_control_characters("a\u{1b}[2Jb\nc"), "a␛[2Jb\nc");
        assert_eq!(one_line("a\nb\u{9b}"), "a␊b\u{fffd}");
    }
}
