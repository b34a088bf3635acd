//! How many calls a plugin gets at the same time, for the agent.

use clap::Args;

use crate::agent::PluginConcurrency;

/// How many calls a plugin gets at a time.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PluginConcurrencyArgs {
    /// Concurrent calls of all classes per plugin, from 1 to 1000; one permit is kept for deletes and detaches
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.total,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub calls_per_plugin: u16,
    /// Concurrent calls of class `create` (creates, validations) per plugin, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.creates,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub creates_per_plugin: u16,
    /// Concurrent calls of classes `change` (expansions, snapshots) and `release` (deletes) per plugin, from 1 to 1000; drivers rely on 1
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.changes,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub changes_per_plugin: u16,
    /// Concurrent calls of classes `attach` and `detach` per plugin, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.attaches,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub attaches_per_plugin: u16,
    /// Concurrent calls of class `list` per plugin, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.lists,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub lists_per_plugin: u16,
}

impl From<&PluginConcurrencyArgs> for PluginConcurrency {
    fn from(arguments: &PluginConcurrencyArgs) -> Self {
        Self {
            total: arguments.calls_per_plugin,
            creates: arguments.creates_per_plugin,
            changes: arguments.changes_per_plugin,
            attaches: arguments.attaches_per_plugin,
            lists: arguments.lists_per_plugin,
        }
    }
}
