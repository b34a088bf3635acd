//! What a plugin says of itself, asked once.
//!
//! Every question is asked whatever the others gave, so that a plugin that is half broken is shown
//! as far as it goes; only a socket at which no CSI plugin answers is an error ([`Unusable`]). What
//! the answers should be is `sound`'s.

use std::io::ErrorKind;
use std::path::Path;

use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::group_controller_service_capability::rpc::Type as GroupRpc;
use crate::csi::proto::node_service_capability::rpc::Type as NodeRpc;
use crate::csi::proto::plugin_capability::service::Type as Service;
use crate::csi::proto::plugin_capability::volume_expansion::Type as Expansion;
use crate::csi::proto::{
    ControllerGetCapabilitiesRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest,
    GetPluginInfoResponse, GroupControllerGetCapabilitiesRequest, NodeGetCapabilitiesRequest,
    NodeGetInfoRequest, NodeGetInfoResponse, ProbeRequest, controller_service_capability,
    group_controller_service_capability, node_service_capability, plugin_capability,
};
use crate::csi::{Failure, RawClient, Reached};
use crate::diagnostic::{Code, Diagnostic};
use crate::ports::StatusCode;

/// What a plugin says of itself. Capabilities are numbers as they were sent, unknown ones too.
#[derive(Clone, Debug)]
pub struct Profile {
    /// GetPluginInfo.
    pub info: GetPluginInfoResponse,
    /// GetPluginCapabilities: services.
    pub services: Result<Vec<i32>, Failure>,
    /// GetPluginCapabilities: ways to expand volumes.
    pub expansion: Vec<i32>,
    /// Probe: whether it is ready; `None` if it does not say, which means ready.
    pub ready: Result<Option<bool>, Failure>,
    /// ControllerGetCapabilities; `None` if it has no controller service.
    pub controller: Option<Result<Vec<i32>, Failure>>,
    /// GroupControllerGetCapabilities; `None` if it has no such service.
    pub group: Option<Result<Vec<i32>, Failure>>,
    /// NodeGetCapabilities; `None` if it has no node service.
    pub node: Option<Result<Vec<i32>, Failure>>,
    /// NodeGetInfo; `None` if it has no node service, or does not have this RPC.
    pub node_info: Option<Result<NodeGetInfoResponse, Failure>>,
}

/// Why a socket has no plugin that could be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// There is no such file.
    NoSocket,
    /// The system does not let us connect.
    Forbidden,
    /// There is a file and nobody listens.
    NobodyListens(String),
    /// Somebody took the connection and never answered.
    Silent(String),
    /// Somebody answered who does not speak gRPC.
    NotGrpc(String),
    /// A gRPC server without CSI.
    NotCsi(String),
    /// A plugin of CSI 0.x.
    TooOld,
    /// It refuses to say who it is.
    Refused(String),
}

impl Unusable {
    /// What is said of the socket.
    pub fn diagnostic(&self, socket: &Path) -> Diagnostic {
        let socket = socket.display();
        let (message, note, help) = match self {
            Self::NoSocket => (
                format!("there is no socket {socket}"),
                None,
                "start the plugin first; it makes the socket itself, where its CSI_ENDPOINT says",
            ),
            Self::Forbidden => (
                format!("the socket {socket} may not be used by this user"),
                None,
                "run the command as the plugin's user, or with sudo",
            ),
            Self::NobodyListens(why) => (
                format!("nobody listens on {socket}"),
                Some(why),
                "the file may be left over from a plugin that has ended: start it again",
            ),
            Self::Silent(why) => (
                format!("the plugin on {socket} does not answer"),
                Some(why),
                "look at the plugin's log; a plugin that starts slowly needs a longer `--timeout`",
            ),
            Self::NotGrpc(why) => (
                format!("what listens on {socket} does not speak gRPC"),
                Some(why),
                "give the socket that the plugin got as CSI_ENDPOINT",
            ),
            Self::NotCsi(why) => (
                format!("what listens on {socket} is no CSI plugin"),
                Some(why),
                "it speaks gRPC without the service csi.v1.Identity; give the plugin's own socket, not a registrar's",
            ),
            Self::TooOld => (
                format!(
                    "the plugin on {socket} speaks CSI 0.x, which no orchestrator uses any more"
                ),
                None,
                "use a version of the plugin for CSI 1.0 or later",
            ),
            Self::Refused(why) => (
                format!("the plugin on {socket} does not say what it is"),
                Some(why),
                "GetPluginInfo has to be answered always (CSI, \"GetPluginInfo\"): look at the plugin's log",
            ),
        };
        let diagnostic = Diagnostic::error(Code::PluginSocket, message);
        match note {
            Some(note) => diagnostic.note(note),
            None => diagnostic,
        }
        .help(help)
    }
}

impl Profile {
    /// Asks the plugin everything.
    ///
    /// # Errors
    /// If nobody is there who could be asked.
    pub async fn ask(client: &RawClient) -> Result<Self, Unusable> {
        let info = match client.call(GetPluginInfoRequest {}).await {
            Ok(info) => info,
            Err(failure) => return Err(unusable(client, failure).await),
        };
        let capabilities = client.call(GetPluginCapabilitiesRequest {}).await;
        let (services, expansion) = match capabilities {
            Ok(answer) => {
                let (services, expansion) = plugin_kinds(&answer.capabilities);
                (Ok(services), expansion)
            }
            Err(failure) => (Err(failure), vec![]),
        };
        let ready = client.call(ProbeRequest {}).await;
        let mut profile = Self {
            info,
            services,
            expansion,
            ready: ready.map(|answer| answer.ready),
            controller: None,
            group: None,
            node: None,
            node_info: None,
        };
        profile.ask_services(client).await;
        Ok(profile)
    }

    async fn ask_services(&mut self, client: &RawClient) {
        if self.has(Service::ControllerService) {
            let answer = client.call(ControllerGetCapabilitiesRequest {}).await;
            self.controller = Some(answer.map(|answer| controller_kinds(&answer.capabilities)));
        }
        if self.has(Service::GroupControllerService) {
            let answer = client.call(GroupControllerGetCapabilitiesRequest {}).await;
            self.group = Some(answer.map(|answer| group_kinds(&answer.capabilities)));
        }
        // Nothing in GetPluginCapabilities says whether there is a node service.
        let answer = client.call(NodeGetCapabilitiesRequest {}).await;
        if is_absent(&answer) {
            return;
        }
        self.node = Some(answer.map(|answer| node_kinds(&answer.capabilities)));
        let answer = client.call(NodeGetInfoRequest {}).await;
        if !is_absent(&answer) {
            self.node_info = Some(answer);
        }
    }

    /// Whether it advertises that service.
    pub fn has(&self, service: Service) -> bool {
        matches!(&self.services, Ok(services) if services.contains(&service.into()))
    }

    /// Whether its controller advertises that.
    pub fn controller_has(&self, kind: ControllerRpc) -> bool {
        matches!(&self.controller, Some(Ok(kinds)) if kinds.contains(&kind.into()))
    }

    /// Whether its group controller advertises that.
    pub fn group_has(&self, kind: GroupRpc) -> bool {
        matches!(&self.group, Some(Ok(kinds)) if kinds.contains(&kind.into()))
    }

    /// Whether its node service advertises that.
    pub fn node_has(&self, kind: NodeRpc) -> bool {
        matches!(&self.node, Some(Ok(kinds)) if kinds.contains(&kind.into()))
    }

    /// Whether volumes can be expanded in that way.
    pub fn expands(&self, kind: Expansion) -> bool {
        self.expansion.contains(&kind.into())
    }

    /// Its node, if it says which.
    pub fn described_node(&self) -> Option<&NodeGetInfoResponse> {
        self.node_info.as_ref()?.as_ref().ok()
    }

    /// Whether it can be used now.
    pub fn is_ready(&self) -> bool {
        matches!(self.ready, Ok(ready) if ready.unwrap_or(true))
    }
}

fn is_absent<T>(answer: &Result<T, Failure>) -> bool {
    matches!(answer, Err(failure) if failure.code() == Some(StatusCode::Unimplemented))
}

async fn unusable(client: &RawClient, failure: Failure) -> Unusable {
    match failure.reached {
        Reached::NotConnected(Some(ErrorKind::NotFound)) => Unusable::NoSocket,
        Reached::NotConnected(Some(ErrorKind::PermissionDenied)) => Unusable::Forbidden,
        Reached::NotConnected(_) => Unusable::NobodyListens(failure.message),
        Reached::TimedOut => Unusable::Silent(failure.message),
        Reached::Broken => Unusable::NotGrpc(failure.message),
        Reached::Answered(StatusCode::Unimplemented) => {
            let old = client.knock("/csi.v0.Identity/GetPluginInfo").await;
            if is_absent(&old) {
                Unusable::NotCsi(failure.to_string())
            } else {
                Unusable::TooOld
            }
        }
        Reached::Answered(_) if !is_grpc(client).await => Unusable::NotGrpc(failure.message),
        Reached::Answered(_) => Unusable::Refused(failure.to_string()),
    }
}

/// A gRPC server has a code of its own for a service that it does not have; another HTTP server has
/// none that gRPC's client could take for it.
async fn is_grpc(client: &RawClient) -> bool {
    is_absent(&client.knock("/nomad_csi.check.v1.Nothing/Nothing").await)
}

fn plugin_kinds(capabilities: &[crate::csi::proto::PluginCapability]) -> (Vec<i32>, Vec<i32>) {
    let (mut services, mut expansion) = (vec![], vec![]);
    for capability in capabilities {
        match &capability.r#type {
            Some(plugin_capability::Type::Service(service)) => services.push(service.r#type),
            Some(plugin_capability::Type::VolumeExpansion(way)) => expansion.push(way.r#type),
            None => services.push(0),
        }
    }
    (services, expansion)
}

fn controller_kinds(list: &[crate::csi::proto::ControllerServiceCapability]) -> Vec<i32> {
    let kind = |one: &crate::csi::proto::ControllerServiceCapability| match &one.r#type {
        Some(controller_service_capability::Type::Rpc(rpc)) => rpc.r#type,
        None => 0,
    };
    list.iter().map(kind).collect()
}

fn group_kinds(list: &[crate::csi::proto::GroupControllerServiceCapability]) -> Vec<i32> {
    let kind = |one: &crate::csi::proto::GroupControllerServiceCapability| match &one.r#type {
        Some(group_controller_service_capability::Type::Rpc(rpc)) => rpc.r#type,
        None => 0,
    };
    list.iter().map(kind).collect()
}

fn node_kinds(list: &[crate::csi::proto::NodeServiceCapability]) -> Vec<i32> {
    let kind = |one: &crate::csi::proto::NodeServiceCapability| match &one.r#type {
        Some(node_service_capability::Type::Rpc(rpc)) => rpc.r#type,
        None => 0,
    };
    list.iter().map(kind).collect()
}

macro_rules! names {
    ($(#[$doc:meta] $function:ident = $($kind:ty),+;)*) => {
        $(#[$doc]
        pub fn $function(kind: i32) -> String {
            $(if let Ok(known) = <$kind>::try_from(kind) {
                return known.as_str_name().to_owned();
            })+
            format!("{kind}, unknown to CSI 1.12")
        })*
    };
}

names! {
    /// The specification's name of a plugin's service.
    plugin_names = Service;
    /// The specification's name of a controller's capability.
    controller_names = ControllerRpc;
    /// The specification's name of a group controller's capability.
    group_names = GroupRpc;
    /// The specification's name of a node's capability.
    node_names = NodeRpc;
}
