//! The options that the command line names, in contrast to those that have their default.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The IDs of the options that the command line names. It takes no values, so it must be the first
/// field of its command: later fields take theirs out of the matches.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypedOptions(Vec<String>);

impl TypedOptions {
    /// Returns the first of these options that the command line names.
    pub(crate) fn first_of(&self, ids: &[&'static str]) -> Option<&'static str> {
        let is_typed = |id: &&str| self.0.iter().any(|typed| typed == id);
        ids.iter().copied().find(is_typed)
    }
}

impl FromArgMatches for TypedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let is_typed = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = matches.ids().map(clap::Id::as_str).filter(is_typed);
        Ok(Self(ids.map(ToOwned::to_owned).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for TypedOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
