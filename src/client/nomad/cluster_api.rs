//! The client as the one API that commands work with.

use std::sync::Arc;

use super::client::NomadClient;
use crate::ports::{ClusterApi, Ledger, ServerWait};
use nomad_csi_model::Namespace;

impl ClusterApi for NomadClient {
    fn ledger(&self, namespace: Namespace) -> Arc<dyn Ledger> {
        Arc::new(Self::ledger(self, namespace))
    }

    fn overriding_policies(&self, overrides: bool) -> Box<dyn ClusterApi> {
        Box::new(Self::overriding_policies(self, overrides))
    }

    fn waiting(&self, wait: ServerWait) -> Box<dyn ClusterApi> {
        Box::new(Self::waiting(self, wait))
    }
}
