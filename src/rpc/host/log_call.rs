//! The requests for the output of tasks.

use super::field::{Malformed, Transfer, required};
use super::messages;
use super::messages::task_logs_request::{Call, Locate, Read};
use nomad_csi_model::AllocId;
use nomad_csi_ports::{LogOrigin, LogPosition, LogStream, TaskOutput};

/// A question about the output of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogCall {
    HasFiles,
    Locate(LogOrigin, u64),
    Read(LogPosition, u64),
    WaitForMore(LogPosition),
}

impl Transfer for (TaskOutput, LogCall) {
    type Message = messages::TaskLogsRequest;

    fn write(self) -> messages::TaskLogsRequest {
        let (output, call) = self;
        messages::TaskLogsRequest {
            alloc: output.alloc.as_str().to_owned(),
            task: output.task,
            is_stderr: output.stream == LogStream::Stderr,
            call: Some(match call {
                LogCall::HasFiles => Call::HasFiles(messages::Nothing {}),
                LogCall::Locate(origin, offset) => {
                    Call::Locate(Locate { from_end: origin == LogOrigin::End, offset })
                }
                LogCall::Read(position, limit) => {
                    Call::Read(Read { position: Some(position.write()), limit })
                }
                LogCall::WaitForMore(position) => Call::WaitForMore(position.write()),
            }),
        }
    }

    fn read(message: messages::TaskLogsRequest) -> Result<Self, Malformed> {
        let output = TaskOutput {
            alloc: AllocId::new(message.alloc),
            task: message.task,
            stream: if message.is_stderr { LogStream::Stderr } else { LogStream::Stdout },
        };
        let call = match message.call.ok_or(Malformed("call"))? {
            Call::HasFiles(messages::Nothing {}) => LogCall::HasFiles,
            Call::Locate(Locate { from_end, offset }) => {
                let origin = if from_end { LogOrigin::End } else { LogOrigin::Start };
                LogCall::Locate(origin, offset)
            }
            Call::Read(Read { position, limit }) => {
                LogCall::Read(required(position, "position")?, limit)
            }
            Call::WaitForMore(position) => LogCall::WaitForMore(LogPosition::read(position)?),
        };
        Ok((output, call))
    }
}
