//! How many calls a plugin gets at the same time, for the agent.

use clap::Args;

use crate::agent::CallWidths;

/// The widths of the line of a plugin.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct CallWidthArgs {
    /// Concurrent calls per plugin, from 1 to 1000; one place is kept for deletes
    #[arg(long, value_name = "N", default_value_t = CallWidths::DEFAULT.total,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub calls_per_plugin: u16,
    /// Concurrent creates and validations per plugin, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = CallWidths::DEFAULT.creates,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub creates_per_plugin: u16,
    /// Concurrent expansions, snapshots and deletes per plugin, from 1 to 1000; drivers rely on 1
    #[arg(long, value_name = "N", default_value_t = CallWidths::DEFAULT.changes,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub changes_per_plugin: u16,
    /// Concurrent lists per plugin, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = CallWidths::DEFAULT.lists,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub lists_per_plugin: u16,
}

impl From<&CallWidthArgs> for CallWidths {
    fn from(arguments: &CallWidthArgs) -> Self {
        Self {
            total: arguments.calls_per_plugin,
            creates: arguments.creates_per_plugin,
            changes: arguments.changes_per_plugin,
            lists: arguments.lists_per_plugin,
        }
    }
}
