//! The requests of the steps of claims, with their order, and those about what a node has of volumes.

use super::field::{
    Malformed, Transfer, from_json, from_path, from_secrets, json, path, required, secrets,
};
use super::messages;
use nomad_csi_model::{AllocId, ExternalNodeId, RemoteVolume};
use nomad_csi_ports::{
    CallOrder, ControllerPublishRequest, ControllerUnpublishRequest, NodeExpandRequest,
    PublishRequest, StageRequest, StatsRequest, UnpublishRequest, UnstageRequest,
};

impl Transfer for (CallOrder, StageRequest) {
    type Message = messages::StageRequest;

    fn write(self) -> messages::StageRequest {
        let (order, request) = self;
        messages::StageRequest {
            order: Some(order.write()),
            volume: Some(request.volume.write()),
            name: Some(request.name.write()),
            usage_json: json(&request.usage),
            attaches: request.attaches,
            publish_context: request.publish_context,
            volume_context: request.volume_context,
            secrets: secrets(&request.secrets),
        }
    }

    fn read(message: messages::StageRequest) -> Result<Self, Malformed> {
        let request = StageRequest {
            volume: required(message.volume, "volume")?,
            name: required(message.name, "name")?,
            usage: from_json(&message.usage_json, "usage_json")?,
            attaches: message.attaches,
            publish_context: message.publish_context,
            volume_context: message.volume_context,
            secrets: from_secrets(message.secrets),
        };
        Ok((required(message.order, "order")?, request))
    }
}

impl Transfer for (CallOrder, PublishRequest) {
    type Message = messages::PublishRequest;

    fn write(self) -> messages::PublishRequest {
        let (order, request) = self;
        messages::PublishRequest {
            order: Some(order.write()),
            volume: Some(request.volume.write()),
            name: Some(request.name.write()),
            target: Some((request.alloc, request.alias).write()),
            usage_json: json(&request.usage),
            attaches: request.attaches,
            stages: request.stages,
            read_only: request.read_only,
            publish_context: request.publish_context,
            volume_context: request.volume_context,
            secrets: secrets(&request.secrets),
        }
    }

    fn read(message: messages::PublishRequest) -> Result<Self, Malformed> {
        let (alloc, alias) = required(message.target, "target")?;
        let request = PublishRequest {
            volume: required(message.volume, "volume")?,
            name: required(message.name, "name")?,
            alloc,
            alias,
            usage: from_json(&message.usage_json, "usage_json")?,
            attaches: message.attaches,
            stages: message.stages,
            read_only: message.read_only,
            publish_context: message.publish_context,
            volume_context: message.volume_context,
            secrets: from_secrets(message.secrets),
        };
        Ok((required(message.order, "order")?, request))
    }
}

impl Transfer for (CallOrder, UnpublishRequest) {
    type Message = messages::UnpublishRequest;

    fn write(self) -> messages::UnpublishRequest {
        let (order, request) = self;
        messages::UnpublishRequest {
            order: Some(order.write()),
            volume: Some(request.volume.write()),
            name: Some(request.name.write()),
            target: Some((request.alloc, request.alias).write()),
        }
    }

    fn read(message: messages::UnpublishRequest) -> Result<Self, Malformed> {
        let (alloc, alias) = required(message.target, "target")?;
        let request = UnpublishRequest {
            volume: required(message.volume, "volume")?,
            name: required(message.name, "name")?,
            alloc,
            alias,
        };
        Ok((required(message.order, "order")?, request))
    }
}

impl Transfer for (CallOrder, UnstageRequest) {
    type Message = messages::UnstageRequest;

    fn write(self) -> messages::UnstageRequest {
        let (order, request) = self;
        messages::UnstageRequest {
            order: Some(order.write()),
            volume: Some(request.volume.write()),
            name: Some(request.name.write()),
        }
    }

    fn read(message: messages::UnstageRequest) -> Result<Self, Malformed> {
        let request = UnstageRequest {
            volume: required(message.volume, "volume")?,
            name: required(message.name, "name")?,
        };
        Ok((required(message.order, "order")?, request))
    }
}

impl Transfer for (CallOrder, NodeExpandRequest) {
    type Message = messages::ExpandRequest;

    fn write(self) -> messages::ExpandRequest {
        let (order, request) = self;
        messages::ExpandRequest {
            order: Some(order.write()),
            volume: Some(request.volume.write()),
            name: Some(request.name.write()),
            usage_json: json(&request.usage),
            capacity_json: json(&request.capacity),
            target: request.target.map(Transfer::write),
            secrets: secrets(&request.secrets),
        }
    }

    fn read(message: messages::ExpandRequest) -> Result<Self, Malformed> {
        let request = NodeExpandRequest {
            volume: required(message.volume, "volume")?,
            name: required(message.name, "name")?,
            usage: from_json(&message.usage_json, "usage_json")?,
            capacity: from_json(&message.capacity_json, "capacity_json")?,
            target: message.target.map(Transfer::read).transpose()?,
            secrets: from_secrets(message.secrets),
        };
        Ok((required(message.order, "order")?, request))
    }
}

impl Transfer for (CallOrder, RemoteVolume) {
    type Message = messages::SweepRequest;

    fn write(self) -> messages::SweepRequest {
        let (order, volume) = self;
        messages::SweepRequest { order: Some(order.write()), volume: Some(volume.write()) }
    }

    fn read(message: messages::SweepRequest) -> Result<Self, Malformed> {
        Ok((required(message.order, "order")?, required(message.volume, "volume")?))
    }
}

impl Transfer for (AllocId, StatsRequest) {
    type Message = messages::StatsRequest;

    fn write(self) -> messages::StatsRequest {
        let (instance, request) = self;
        messages::StatsRequest {
            instance: instance.as_str().to_owned(),
            volume: Some(request.volume.write()),
            target: path(&request.target),
            is_staged: request.is_staged,
        }
    }

    fn read(message: messages::StatsRequest) -> Result<Self, Malformed> {
        let request = StatsRequest {
            volume: required(message.volume, "volume")?,
            target: from_path(message.target),
            is_staged: message.is_staged,
        };
        Ok((AllocId::new(message.instance), request))
    }
}

impl Transfer for (CallOrder, ControllerPublishRequest) {
    type Message = messages::ControllerPublishRequest;

    fn write(self) -> messages::ControllerPublishRequest {
        let (order, request) = self;
        messages::ControllerPublishRequest {
            order: Some(order.write()),
            volume: Some(request.volume.write()),
            name: Some(request.name.write()),
            node: request.node.as_str().to_owned(),
            usage_json: json(&request.usage),
            read_only: request.read_only,
            volume_context: request.volume_context,
            secrets: secrets(&request.secrets),
        }
    }

    fn read(message: messages::ControllerPublishRequest) -> Result<Self, Malformed> {
        let request = ControllerPublishRequest {
            volume: required(message.volume, "volume")?,
            name: required(message.name, "name")?,
            node: ExternalNodeId::new(message.node),
            usage: from_json(&message.usage_json, "usage_json")?,
            read_only: message.read_only,
            volume_context: message.volume_context,
            secrets: from_secrets(message.secrets),
        };
        Ok((required(message.order, "order")?, request))
    }
}

impl Transfer for (CallOrder, ControllerUnpublishRequest) {
    type Message = messages::ControllerUnpublishRequest;

    fn write(self) -> messages::ControllerUnpublishRequest {
        let (order, request) = self;
        messages::ControllerUnpublishRequest {
            order: Some(order.write()),
            volume: Some(request.volume.write()),
            name: Some(request.name.write()),
            node: request.node.as_str().to_owned(),
            secrets: secrets(&request.secrets),
        }
    }

    fn read(message: messages::ControllerUnpublishRequest) -> Result<Self, Malformed> {
        let request = ControllerUnpublishRequest {
            volume: required(message.volume, "volume")?,
            name: required(message.name, "name")?,
            node: ExternalNodeId::new(message.node),
            secrets: from_secrets(message.secrets),
        };
        Ok((required(message.order, "order")?, request))
    }
}
