//! Annotations of GitHub's workflows: a line per remark, at its place in the file, and one on the
//! whole. Commands are `::level file=F,line=L,col=C,title=T::message`; `%`, line ends and, in
//! properties, `:` and `,` are escaped.

use super::report::Reported;
use crate::cli::ui::plan::counts;
use crate::diagnostic::{Diagnostic, Severity};

pub(super) fn github(reported: Reported<'_>) -> String {
    let mut lines: Vec<String> = reported
        .remarks
        .iter()
        .map(|remark| annotation(remark, reported))
        .collect();
    let counts = counts(reported.plan.counts());
    let message = format!("Plan for {}: {counts}", reported.server);
    lines.push(format!("::notice title=nomad-csi::{}", data(&message)));
    lines.join("\n")
}

fn annotation(remark: &Diagnostic, reported: Reported<'_>) -> String {
    let level = match remark.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut properties = vec![];
    if let Some(label) = remark.labels.first() {
        let place = reported.sources.location(label.span);
        let file = property(reported.sources.name(label.span.source));
        properties.push(format!(
            "file={file},line={},col={}",
            place.line, place.column
        ));
    }
    properties.push(format!("title={}", property(remark.code.as_str())));
    let more = remark.notes.iter().chain(&remark.help);
    let text = std::iter::once(&remark.message).chain(more);
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

    /// A name of a volume cannot end the command or begin another.
    #[test]
    fn what_would_end_a_command_is_escaped() {
        assert_eq!(data("100%\r\n::error::x"), "100%25%0D%0A::error::x");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
    }
}
