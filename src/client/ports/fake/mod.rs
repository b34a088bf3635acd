//! Fakes of the ports in memory: as strict as the real adapters, with injected failures.

mod ledger;
mod volume_api;

pub(crate) use ledger::{LedgerFault, MemoryLedger};
pub(crate) use volume_api::{CallFault, FakeServer};
