//! A plugin that repeats a secret in any field of any answer, or in any error: what the program shows, logs and stores
//! has passed one place that hides it (B23, W50).
//!
//! The messages are filled from their definitions, one text at a time, so a new field is tried by itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use nomad_csi_csi::{CallFailure, CsiRequest, GrpcConnector, RawClient};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Capability, CapacityRange, ExternalId, MountOptions, Secrets,
};
use nomad_csi_ports::{Connector as _, CreateVolume, Rpc, SentSecrets};
use nomad_csi_proto as proto;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use tonic::{Code, Status};

use crate::support::echo_plugin::EchoPlugin;

const CANARY: &str = "canary-\"pass\"/word";

/// Fields that are sent back to the plugin as they are, and sealed where they are recorded.
const CONTEXTS: [&str; 4] =
    ["volume_context", "publish_context", "parameters", "mutable_parameters"];

/// The secret as a careless plugin writes it.
fn forms() -> Vec<String> {
    let base64 = base64::engine::general_purpose::STANDARD;
    let url = percent_encoding::utf8_percent_encode(CANARY, percent_encoding::NON_ALPHANUMERIC);
    vec![
        CANARY.to_owned(),
        serde_json::to_string(CANARY).unwrap(),
        url.to_string(),
        base64.encode(CANARY),
        base64.encode(format!("user:{CANARY}")),
        CANARY[..9].to_owned(),
    ]
}

fn shows_the_secret(text: &str) -> bool {
    let parts = ["canary", "word", &forms()[3][..8], &forms()[4][8..16]];
    parts.iter().any(|part| text.contains(part))
}

/// A message with secrets, after which the connection knows them.
fn request_with_secrets() -> proto::NodeStageVolumeRequest {
    proto::NodeStageVolumeRequest {
        secrets: [("token".to_owned(), CANARY.to_owned())].into(),
        ..Default::default()
    }
}

struct Echoing {
    _plugin: EchoPlugin,
    client: RawClient,
    answer: Arc<Mutex<Result<Vec<u8>, String>>>,
}

impl Echoing {
    fn start(directory: &Path) -> Self {
        let answer: Arc<Mutex<Result<Vec<u8>, String>>> = Arc::new(Mutex::new(Ok(vec![])));
        let given = answer.clone();
        let plugin = EchoPlugin::start(&directory.join("csi.sock"), move |_| {
            let answer = given.lock().unwrap().clone();
            answer.map_err(|text| Status::with_details(Code::Internal, text.clone(), text.into()))
        });
        Self {
            client: RawClient::new(&plugin.socket, Duration::from_secs(30)),
            _plugin: plugin,
            answer,
        }
    }

    async fn call<C: CsiRequest>(
        &self,
        answer: Result<Vec<u8>, String>,
    ) -> Result<C::Response, CallFailure> {
        *self.answer.lock().unwrap() = answer;
        if C::RPC.starts_with("GetMetadata") {
            let collected = self.client.collect(C::default(), 1).await;
            return collected.map(|mut messages| messages.pop().unwrap_or_default());
        }
        self.client.call(C::default()).await
    }
}

/// Every field with a text, by the positions of the fields that lead to it.
fn texts_in(all: &FileDescriptorSet, message: &DescriptorProto) -> Vec<Vec<usize>> {
    let mut paths = vec![];
    for (at, field) in message.field.iter().enumerate() {
        match field.r#type() {
            Type::String => paths.push(vec![at]),
            Type::Message => {
                for path in
                    message_of(all, message, field).iter().flat_map(|inner| texts_in(all, inner))
                {
                    paths.push([vec![at], path].concat());
                }
            }
            _ => {}
        }
    }
    paths
}

/// The message that a field holds; `None` if it is none of CSI.
fn message_of<'a>(
    all: &'a FileDescriptorSet,
    around: &'a DescriptorProto,
    field: &FieldDescriptorProto,
) -> Option<&'a DescriptorProto> {
    let path = field.type_name().strip_prefix(".csi.v1.")?;
    let own =
        around.nested_type.iter().find(|nested| path.ends_with(&format!(".{}", nested.name())));
    let mut parts = path.split('.');
    let first = parts.next()?;
    let files = all.file.iter().filter(|file| file.package() == "csi.v1");
    let mut found = files.flat_map(|file| &file.message_type).find(|m| m.name() == first)?;
    for part in parts {
        found = found.nested_type.iter().find(|nested| nested.name() == part)?;
    }
    own.or(Some(found))
}

/// Encodes a message in which every text is `x`, except the one at the path.
fn encode(
    all: &FileDescriptorSet,
    message: &DescriptorProto,
    path: &[usize],
    text: &str,
) -> Vec<u8> {
    let mut bytes = vec![];
    let mut chosen = std::collections::BTreeSet::new();
    for (at, field) in message.field.iter().enumerate() {
        let leads = path.first() == Some(&at);
        let rest = if leads { &path[1..] } else { &[][..] };
        // Of alternatives, the one on the path is encoded, or the first.
        if let Some(oneof) = field.oneof_index {
            let other_leads = path
                .first()
                .is_some_and(|at| message.field[*at].oneof_index == Some(oneof) && !leads);
            if other_leads || !chosen.insert(oneof) {
                continue;
            }
        }
        let payload = match field.r#type() {
            Type::String if leads => text.as_bytes().to_vec(),
            Type::String => b"x".to_vec(),
            Type::Message => match message_of(all, message, field) {
                Some(inner) => encode(all, inner, rest, text),
                None => continue,
            },
            _ => continue,
        };
        assert!(field.label() != Label::Required, "proto3");
        varint(&mut bytes, u64::try_from(field.number() << 3 | 2).unwrap());
        varint(&mut bytes, payload.len() as u64);
        bytes.extend(payload);
    }
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
}

/// The name of the field of CSI at the path; a map's entry has the name of the map.
fn field_name<'a>(
    all: &'a FileDescriptorSet,
    message: &'a DescriptorProto,
    path: &[usize],
) -> &'a str {
    let field = &message.field[path[0]];
    match message_of(all, message, field) {
        Some(inner)
            if !inner.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry) =>
        {
            field_name(all, inner, &path[1..])
        }
        Some(_) | None => field.name(),
    }
}

/// Tries every form of the secret in every text of the answer to one RPC, and in its error. Returns how many
/// answers were tried.
async fn try_rpc<C: CsiRequest>(echoing: &Echoing, all: &FileDescriptorSet) -> usize {
    let name = format!("{}Response", C::RPC);
    let messages = all.file.iter().flat_map(|file| &file.message_type);
    let mut messages = messages.filter(|message| message.name() == name);
    let message = messages.next().expect("every RPC has an answer");
    let paths = texts_in(all, message);
    for form in forms() {
        let refused = echoing.call::<C>(Err(format!("cannot log in: {form}"))).await;
        let refused = format!("{refused:?}");
        assert!(refused.contains("[REDACTED]"), "{}: {refused}", C::RPC);
        assert!(!shows_the_secret(&refused), "{}: {refused}", C::RPC);
        for path in &paths {
            let field = field_name(all, message, path);
            let answer = encode(all, message, path, &format!("is {form}"));
            let seen = format!("{:?}", echoing.call::<C>(Ok(answer)).await);
            let is_context = CONTEXTS.contains(&field);
            // A part of a secret in an ID may be the name of something.
            let is_whole = form != forms()[5];
            if !is_context && (is_whole || field == "message") {
                assert!(!shows_the_secret(&seen), "{} {field} {form}: {seen}", C::RPC);
            }
        }
    }
    paths.len()
}

macro_rules! try_all {
    ($echoing:expr, $all:expr; $($rpc:ident)*) => {
        vec![$((stringify!($rpc), try_rpc::<proto::$rpc>($echoing, $all).await)),*]
    };
}

#[tokio::test]
async fn no_answer_and_no_error_of_a_plugin_shows_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let echoing = Echoing::start(directory.path());
    let proto_files = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let all = protox::compile(["csi/v1/csi.proto"], [proto_files]).unwrap();
    echoing.client.call(request_with_secrets()).await.unwrap();
    let tried = try_all!(&echoing, &all;
        GetPluginInfoRequest GetPluginCapabilitiesRequest ProbeRequest
        CreateVolumeRequest DeleteVolumeRequest ControllerPublishVolumeRequest
        ControllerUnpublishVolumeRequest ValidateVolumeCapabilitiesRequest ListVolumesRequest
        GetCapacityRequest ControllerGetCapabilitiesRequest CreateSnapshotRequest
        DeleteSnapshotRequest ListSnapshotsRequest GetSnapshotRequest ControllerExpandVolumeRequest
        ControllerGetVolumeRequest ControllerModifyVolumeRequest ControllerGetVolumeHealthRequest
        ControllerListVolumeHealthRequest GroupControllerGetCapabilitiesRequest
        CreateVolumeGroupSnapshotRequest DeleteVolumeGroupSnapshotRequest
        GetVolumeGroupSnapshotRequest GetMetadataAllocatedRequest GetMetadataDeltaRequest
        NodeStageVolumeRequest NodeUnstageVolumeRequest NodePublishVolumeRequest
        NodeUnpublishVolumeRequest NodeGetVolumeStatsRequest NodeExpandVolumeRequest
        NodeGetCapabilitiesRequest NodeGetInfoRequest NodeGetVolumeHealthRequest
        NodeGetStorageHealthRequest);
    let texts: usize = tried.iter().map(|(_, texts)| texts).sum();
    assert!(texts > 60, "{tried:?}");
}

/// The same place hides them for the agent, whose ports send each call with its own secrets.
#[tokio::test]
async fn the_ports_of_the_agent_hide_secrets_too() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("no access for {CANARY} with flag hunter22");
    let plugin = EchoPlugin::start(&directory.path().join("csi.sock"), move |_| {
        Err(Status::internal(text.clone()))
    });
    let connection = GrpcConnector::new().connect(&plugin.socket, None, &SentSecrets::default());
    let request = CreateVolume {
        name: "db".to_owned(),
        capacity: CapacityRange::default(),
        capabilities: vec![Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        }],
        mount_options: MountOptions {
            fs_type: String::new(),
            mount_flags: vec!["password=hunter22".to_owned()],
        },
        parameters: BTreeMap::new(),
        secrets: Secrets::from_iter([("token", CANARY)]),
        source: None,
        topology: None,
    };
    let error = connection.controller.create_volume(request).await.unwrap_err();
    assert_eq!(error.rpc, Rpc::CreateVolume);
    let shown = "no access for [REDACTED] with flag [REDACTED]";
    assert_eq!(error.message, shown);
    // A call without secrets, after one that had them.
    let id = ExternalId::new("vol-1");
    let error = connection.controller.delete_volume(id, Secrets::default()).await;
    assert_eq!(error.unwrap_err().message, shown);
}

/// A plugin outlives an agent, and repeats to the next one what it got from the one before.
#[tokio::test]
async fn what_was_sent_before_is_hidden_too() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("no access for {CANARY} with flag hunter22 at 10.0.0.7:3260");
    let plugin = EchoPlugin::start(&directory.path().join("csi.sock"), move |_| {
        Err(Status::internal(text.clone()))
    });
    let mut sent = SentSecrets::default();
    sent.add_secret(CANARY);
    sent.add_sealed("password=hunter22");
    sent.add_sealed("10.0.0.7:3260");
    assert!(!format!("{sent:?}").contains("hunter22"));
    let connector = GrpcConnector::new();
    let shown = "no access for [REDACTED] with flag [REDACTED] at [REDACTED]";
    for sent in [sent, SentSecrets::default()] {
        let connection = connector.connect(&plugin.socket, None, &sent);
        let error = connection.identity.plugin_info().await.unwrap_err();
        assert_eq!(error.message, shown);
    }
}
