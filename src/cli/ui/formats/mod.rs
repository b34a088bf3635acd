//! A plan in the forms that pipelines take: one file per form, several in one run (`users` 3.8).

mod github;
mod junit;
mod markdown;
mod report;
mod sarif;

pub(crate) use report::{ReportFile, Reported, report};
