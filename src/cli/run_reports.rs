//! Collects what a run reports, and writes the reports at its end, however it ends.

use std::path::Path;

use parking_lot::Mutex;

use super::args::ReportArgs;
use super::exit::Exit;
use super::ui::{Finding, Printer, RunReport, RunTime};
use nomad_csi_client::files;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};

/// The report of the run, and where it is written.
pub(super) struct RunReports {
    arguments: ReportArgs,
    report: Mutex<RunReport>,
    /// Nanoseconds since the epoch.
    started: i64,
}

impl RunReports {
    /// Returns the reports of a command that starts at `now`, in nanoseconds since the epoch; `None` if none is requested,
    /// because a run can print problems without end.
    pub(super) fn of(command: &'static str, arguments: &ReportArgs, now: i64) -> Option<Self> {
        let report = RunReport { command, ..RunReport::default() };
        (!arguments.formats.is_empty()).then(|| Self {
            arguments: arguments.clone(),
            report: Mutex::new(report),
            started: now,
        })
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

    /// Writes all reports, relative to `directory`, of a run that ends at `now`. Returns why some could not be written.
    pub(super) fn write(
        &self,
        printer: &Printer,
        directory: &Path,
        exit: Exit,
        now: i64,
    ) -> Diagnostics {
        let report = {
            let mut report = self.report.lock();
            report.time = Some(RunTime { started: self.started, ended: now });
            report.has_failed = !matches!(exit, Exit::Done | Exit::ChangesPending);
            report.clone().with_ended_runs()
        };
        let mut problems = Diagnostics::default();
        for format in &self.arguments.formats {
            let text = format.text(&report);
            let text = format!("{}\n", text.trim_end());
            let Some(path) = format.file() else {
                // A run may have nothing to say to a workflow.
                if text.trim().is_empty() {
                    continue;
                }
                match format.has_commands() {
                    true => printer.print_commands(&text),
                    false => printer.print_result(&text),
                }
                continue;
            };
            let written = files::write_over(directory, path.as_ref(), text.as_bytes());
            problems.extend(written.err().unwrap_or_default());
        }
        problems
    }
}
