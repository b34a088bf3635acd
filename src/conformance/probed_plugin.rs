//! What a plugin reports about itself.
//!
//! The probe sends every call even if others fail, so it also describes a partly broken plugin. Only a
//! socket without a CSI plugin is an error ([`ProbeError`]). `validity` judges the responses.

use std::io::ErrorKind;
use std::path::Path;

use nomad_csi_csi::{CallFailure, FailureKind, RawClient};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::group_controller_service_capability::rpc::Type as GroupRpc;
use nomad_csi_proto::node_service_capability::rpc::Type as NodeRpc;
use nomad_csi_proto::plugin_capability::service::Type as Service;
use nomad_csi_proto::plugin_capability::volume_expansion::Type as Expansion;
use nomad_csi_proto::{
    ControllerGetCapabilitiesRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest,
    GetPluginInfoResponse, GroupControllerGetCapabilitiesRequest, NodeGetCapabilitiesRequest,
    NodeGetInfoRequest, NodeGetInfoResponse, ProbeRequest, controller_service_capability,
    group_controller_service_capability, node_service_capability, plugin_capability,
};

/// A plugin's report about itself. Capabilities are numbers as sent, also unknown ones.
#[derive(Clone, Debug)]
pub struct ProbedPlugin {
    /// The response to GetPluginInfo.
    pub info: GetPluginInfoResponse,
    /// The services in the response to GetPluginCapabilities.
    pub services: Result<Vec<i32>, CallFailure>,
    /// The volume expansions in the response to GetPluginCapabilities.
    pub expansion: Vec<i32>,
    /// The `ready` field of the response to Probe; `None` means ready.
    pub ready: Result<Option<bool>, CallFailure>,
    /// The response to ControllerGetCapabilities; `None` without a controller service.
    pub controller: Option<Result<Vec<i32>, CallFailure>>,
    /// The response to GroupControllerGetCapabilities; `None` without a group controller service.
    pub group: Option<Result<Vec<i32>, CallFailure>>,
    /// The response to NodeGetCapabilities; `None` without a node service.
    pub node: Option<Result<Vec<i32>, CallFailure>>,
    /// The response to NodeGetInfo; `None` if the plugin does not implement it.
    pub node_info: Option<Result<NodeGetInfoResponse, CallFailure>>,
}

/// Why the plugin at a socket cannot be probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// The socket does not exist.
    NoSocket,
    /// This user may not connect.
    PermissionDenied,
    /// The file exists, but no process listens.
    ConnectionRefused(String),
    /// The process accepts the connection and does not respond.
    NoAnswer(String),
    /// The process does not speak gRPC.
    NotGrpc(String),
    /// The process is a gRPC server without CSI.
    NotCsi(String),
    /// The plugin implements CSI 0.x.
    CsiVersion0,
    /// GetPluginInfo fails.
    Refused(String),
}

impl ProbeError {
    /// Returns the message for the user.
    pub fn diagnostic(&self, socket: &Path) -> Diagnostic {
        let socket = socket.display();
        let (message, note, help) = match self {
            Self::NoSocket => (
                format!("the socket `{socket}` does not exist"),
                None,
                "start the plugin first; it creates the socket at its CSI_ENDPOINT",
            ),
            Self::PermissionDenied => (
                format!("cannot connect to `{socket}`: permission denied"),
                None,
                "run the command as the user of the plugin, or as root",
            ),
            Self::ConnectionRefused(why) => (
                format!("cannot connect to `{socket}`: no process listens on the socket"),
                Some(why),
                "start the plugin; the file may be left over from an earlier process",
            ),
            Self::NoAnswer(why) => (
                format!("the plugin at `{socket}` does not respond"),
                Some(why),
                "check the plugin's log, or use a longer `--timeout` if the plugin starts slowly",
            ),
            Self::NotGrpc(why) => (
                format!("the process at `{socket}` does not speak gRPC"),
                Some(why),
                "use the socket in the plugin's CSI_ENDPOINT",
            ),
            Self::NotCsi(why) => (
                format!(
                    "the process at `{socket}` is not a CSI plugin: the gRPC service csi.v1.Identity is missing"
                ),
                Some(why),
                "use the plugin's own socket, not that of a registrar",
            ),
            Self::CsiVersion0 => (
                format!(
                    "the plugin at `{socket}` implements CSI 0.x, which orchestrators no longer support"
                ),
                None,
                "use a version of the plugin that implements CSI 1.0 or later",
            ),
            Self::Refused(why) => (
                format!("the plugin at `{socket}` does not identify itself: GetPluginInfo failed"),
                Some(why),
                "check the plugin's log; every plugin must implement GetPluginInfo",
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

impl ProbedPlugin {
    /// Probes the plugin behind `client`.
    ///
    /// # Errors
    /// If no CSI plugin responds.
    pub async fn probe(client: &RawClient) -> Result<Self, ProbeError> {
        let info = match client.call(GetPluginInfoRequest {}).await {
            Ok(info) => info,
            Err(failure) => return Err(probe_error(client, failure).await),
        };
        let capabilities = client.call(GetPluginCapabilitiesRequest {}).await;
        let (services, expansion) = match capabilities {
            Ok(response) => {
                let (services, expansion) = plugin_capability_types(&response.capabilities);
                (Ok(services), expansion)
            }
            Err(failure) => (Err(failure), vec![]),
        };
        let ready = client.call(ProbeRequest {}).await;
        let mut plugin = Self {
            info,
            services,
            expansion,
            ready: ready.map(|response| response.ready),
            controller: None,
            group: None,
            node: None,
            node_info: None,
        };
        plugin.probe_services(client).await;
        Ok(plugin)
    }

    async fn probe_services(&mut self, client: &RawClient) {
        if self.has_service(Service::ControllerService) {
            let response = client.call(ControllerGetCapabilitiesRequest {}).await;
            self.controller =
                Some(response.map(|response| controller_capability_types(&response.capabilities)));
        }
        if self.has_service(Service::GroupControllerService) {
            let response = client.call(GroupControllerGetCapabilitiesRequest {}).await;
            self.group =
                Some(response.map(|response| group_capability_types(&response.capabilities)));
        }
        // GetPluginCapabilities does not list the node service.
        let response = client.call(NodeGetCapabilitiesRequest {}).await;
        if is_absent(&response) {
            return;
        }
        self.node = Some(response.map(|response| node_capability_types(&response.capabilities)));
        let response = client.call(NodeGetInfoRequest {}).await;
        if !is_absent(&response) {
            self.node_info = Some(response);
        }
    }

    /// Returns whether the plugin advertises a service.
    pub fn has_service(&self, service: Service) -> bool {
        matches!(&self.services, Ok(services) if services.contains(&service.into()))
    }

    /// Returns whether the controller advertises a capability.
    pub fn controller_has(&self, kind: ControllerRpc) -> bool {
        matches!(&self.controller, Some(Ok(kinds)) if kinds.contains(&kind.into()))
    }

    /// Returns whether the group controller advertises a capability.
    pub fn group_has(&self, kind: GroupRpc) -> bool {
        matches!(&self.group, Some(Ok(kinds)) if kinds.contains(&kind.into()))
    }

    /// Returns whether the node service advertises a capability.
    pub fn node_has(&self, kind: NodeRpc) -> bool {
        matches!(&self.node, Some(Ok(kinds)) if kinds.contains(&kind.into()))
    }

    /// Returns whether the plugin advertises a kind of volume expansion.
    pub fn expands(&self, kind: Expansion) -> bool {
        self.expansion.contains(&kind.into())
    }

    /// Returns the response to NodeGetInfo, if the call succeeded.
    pub fn described_node(&self) -> Option<&NodeGetInfoResponse> {
        self.node_info.as_ref()?.as_ref().ok()
    }

    /// Returns whether the plugin is ready.
    pub fn is_ready(&self) -> bool {
        matches!(self.ready, Ok(ready) if ready.unwrap_or(true))
    }
}

fn is_absent<T>(response: &Result<T, CallFailure>) -> bool {
    matches!(response, Err(failure) if failure.code() == Some(StatusCode::Unimplemented))
}

async fn probe_error(client: &RawClient, failure: CallFailure) -> ProbeError {
    match failure.kind {
        FailureKind::NotConnected(Some(ErrorKind::NotFound)) => ProbeError::NoSocket,
        FailureKind::NotConnected(Some(ErrorKind::PermissionDenied)) => {
            ProbeError::PermissionDenied
        }
        FailureKind::NotConnected(_) => ProbeError::ConnectionRefused(failure.message),
        FailureKind::TimedOut => ProbeError::NoAnswer(failure.message),
        FailureKind::ConnectionLost => ProbeError::NotGrpc(failure.message),
        FailureKind::Answered(StatusCode::Unimplemented) => {
            let old = client.call_empty("/csi.v0.Identity/GetPluginInfo").await;
            if is_absent(&old) {
                ProbeError::NotCsi(failure.to_string())
            } else {
                ProbeError::CsiVersion0
            }
        }
        FailureKind::Answered(_) if !is_grpc(client).await => ProbeError::NotGrpc(failure.message),
        FailureKind::Answered(_) => ProbeError::Refused(failure.to_string()),
    }
}

/// Returns whether the process is a gRPC server: only such a server returns UNIMPLEMENTED for an unknown
/// service.
async fn is_grpc(client: &RawClient) -> bool {
    is_absent(&client.call_empty("/nomad_csi.check.v1.Nothing/Nothing").await)
}

fn plugin_capability_types(
    capabilities: &[nomad_csi_proto::PluginCapability],
) -> (Vec<i32>, Vec<i32>) {
    let (mut services, mut expansion) = (vec![], vec![]);
    for capability in capabilities {
        match &capability.r#type {
            Some(plugin_capability::Type::Service(service)) => services.push(service.r#type),
            Some(plugin_capability::Type::VolumeExpansion(kind)) => expansion.push(kind.r#type),
            None => services.push(0),
        }
    }
    (services, expansion)
}

fn controller_capability_types(list: &[nomad_csi_proto::ControllerServiceCapability]) -> Vec<i32> {
    let kind = |one: &nomad_csi_proto::ControllerServiceCapability| match &one.r#type {
        Some(controller_service_capability::Type::Rpc(rpc)) => rpc.r#type,
        None => 0,
    };
    list.iter().map(kind).collect()
}

fn group_capability_types(list: &[nomad_csi_proto::GroupControllerServiceCapability]) -> Vec<i32> {
    let kind = |one: &nomad_csi_proto::GroupControllerServiceCapability| match &one.r#type {
        Some(group_controller_service_capability::Type::Rpc(rpc)) => rpc.r#type,
        None => 0,
    };
    list.iter().map(kind).collect()
}

fn node_capability_types(list: &[nomad_csi_proto::NodeServiceCapability]) -> Vec<i32> {
    let kind = |one: &nomad_csi_proto::NodeServiceCapability| match &one.r#type {
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
            format!("{kind}, not defined in CSI 1.13")
        })*
    };
}

names! {
    /// Returns the name of a plugin service in the CSI specification.
    plugin_service_name = Service;
    /// Returns the name of a controller capability in the CSI specification.
    controller_capability_name = ControllerRpc;
    /// Returns the name of a group controller capability in the CSI specification.
    group_capability_name = GroupRpc;
    /// Returns the name of a node capability in the CSI specification.
    node_capability_name = NodeRpc;
}
