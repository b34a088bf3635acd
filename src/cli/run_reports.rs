//! Collects what a run reports, and writes the reports at its end, however it ends.

use std::path::Path;

use parking_lot::Mutex;

use super::args::ReportArgs;
use super::exit::Exit;
use super::ui::{Finding, Printer, RunReport};
use nomad_csi_client::files;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};

/// The report of the run, and where it is written.
pub(super) struct RunReports {
    arguments: ReportArgs,
    report: Mutex<RunReport>,
}

impl RunReports {
    /// Returns the reports of a command; `None` if none is requested, because a run can print problems
    /// without end.
    pub(super) fn of(command: &'static str, arguments: &ReportArgs) -> Option<Self> {
        let report = RunReport { command, ..RunReport::default() };
        (!arguments.formats.is_empty())
            .then(|| Self { arguments: arguments.clone(), report: Mutex::new(report) })
    }

    /// Changes the report.
    pub(super) fn update(&self, change: impl FnOnce(&mut RunReport)) {
        let mut report = self.report.lock();
        change(&mut report);
    }

    /// Adds problems.
    pub(super) fn add(&self, diagnostics: &Diagnostics, sources: &SourceMap) {
        let findings = diagnostics.iter();
        let findings = findings.map(|diagnostic| Finding::of(diagnostic, sources));
        self.update(|report| report.findings.extend(findings));
    }

    /// Writes all reports, relative to `directory`. Returns why some could not be written.
    pub(super) fn write(&self, printer: &Printer, directory: &Path, exit: Exit) -> Diagnostics {
        let report = {
            let mut report = self.report.lock();
            report.has_failed = !matches!(exit, Exit::Done | Exit::ChangesPending);
            report.clone().with_ended_runs()
        };
        let mut problems = Diagnostics::default();
        for format in &self.arguments.formats {
            let text = format.text(&report);
            let Some(path) = format.file() else {
                match format.has_commands() {
                    true => printer.print_commands(&text),
                    false => printer.print_result(&text),
                }
                continue;
            };
            let text = format!("{}\n", text.trim_end());
            let written = files::write_over(directory, path.as_ref(), text.as_bytes());
            problems.extend(written.err().unwrap_or_default());
        }
        problems
    }
}
