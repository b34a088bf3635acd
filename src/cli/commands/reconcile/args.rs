//! Arguments of `reconcile`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::cli::args::{
    FileArgs, LedgerArgs, ParallelismArgs, ServerWaitArgs, SetArgs, StandingChangeArgs,
    drift_field, required_paths,
};

/// Arguments of `reconcile`.
#[derive(Args, Debug)]
#[command(group = required_paths())]
pub(crate) struct ReconcileArgs {
    /// The specifications.
    #[command(flatten)]
    pub files: FileArgs,
    /// The set of the volumes.
    #[command(flatten)]
    pub set: SetArgs,
    /// Longest time between two rounds, from 1s to 24h
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    pub interval: Duration,
    /// Change volumes to match the files
    #[arg(long)]
    pub apply: bool,
    /// Make the other changes while some are blocked
    ///
    /// Without it, one change that is blocked or not approved stops all of the set. Changes that depend on a blocked one
    /// wait with it. Missing permissions, and secrets that have no value, stop all in any case.
    #[arg(long, requires = "apply")]
    pub keep_going: bool,
    /// Address that serves Prometheus metrics at /metrics without authentication
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Field to ignore; repeatable
    ///
    /// FIELD is a key of a specification, with dots for nested keys: `context`,
    /// `mount_options.fs_type`. To ignore a field of one volume, write `ignore = ["FIELD"]` in its
    /// specification.
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = drift_field)]
    pub ignore: Vec<String>,
    /// The additional changes.
    #[command(flatten)]
    pub changes: StandingChangeArgs,
    /// The ledger of the set.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
    /// The wait for the server.
    #[command(flatten)]
    pub server_wait: ServerWaitArgs,
}

/// A number of seconds, minutes or hours.
fn interval(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let unit = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let seconds =
        unit.and_then(|(number, seconds)| number.parse::<u32>().ok()?.checked_mul(*seconds));
    match seconds {
        Some(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds.into())),
        Some(_) | None => Err("expected a time from 1s to 24h, such as 30s, 5m or 1h".to_owned()),
    }
}
