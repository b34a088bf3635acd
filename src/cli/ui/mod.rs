//! How things look: one printer, tables, diagnostics, plans, progress and machine formats.

mod allocs;
mod diagnostic;
mod output;
mod plan;
mod plugin;
mod printer;
mod progress;
mod table;
mod time;
mod volume;

pub(super) use allocs::Now;
pub(super) use diagnostic::{render, to_json};
pub(super) use output::{Output, json_text};
pub(super) use plan::{plan_json, plan_text};
pub(super) use plugin::{plugin_detail, plugin_list};
pub(super) use printer::{Printer, Stream, one_line};
pub(super) use progress::Progress;
pub(super) use table::table;
pub(super) use volume::{volume_detail, volume_list};
