//! GitHub workflow annotations: one per diagnostic at its position, and one for the whole plan.
//!
//! A command is `::level file=F,line=L,col=C,title=T::message`. `%` and line ends are escaped, and in
//! properties also `:` and `,`.

use super::report_input::ReportInput;
use crate::cli::ui::plan::counts;
use crate::diagnostic::{Diagnostic, Severity};

pub(super) fn github(input: ReportInput<'_>) -> String {
    let mut lines: Vec<String> = input
        .diagnostics
        .iter()
        .map(|diagnostic| annotation(diagnostic, input))
        .collect();
    let counts = counts(input.plan.counts());
    let message = format!("Plan for {}: {counts}", input.server);
    lines.push(format!("::notice title=nomad-csi::{}", data(&message)));
    lines.join("\n")
}

fn annotation(diagnostic: &Diagnostic, input: ReportInput<'_>) -> String {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut properties = vec![];
    if let Some(label) = diagnostic.labels.first() {
        let place = input.sources.location(label.span);
        let file = property(input.sources.name(label.span.source));
        properties.push(format!(
            "file={file},line={},col={}",
            place.line, place.column
        ));
    }
    properties.push(format!("title={}", property(diagnostic.code.as_str())));
    let more = diagnostic.notes.iter().chain(&diagnostic.help);
    let text = std::iter::once(&diagnostic.message).chain(more);
    let text = text.map(String::as_str).collect::<Vec<_>>().join("\n");
    format!("::{level} {}::{}", properties.join(","), data(&text))
}

fn data(text: &str) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D");
    text.replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a volume must not end the command or start another.
    #[test]
    fn characters_that_end_a_command_are_escaped() {
        assert_eq!(data("100%\r\n::error::x"), "100%25%0D%0A::error::x");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
    }
}
