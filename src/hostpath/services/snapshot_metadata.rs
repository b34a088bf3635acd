//! CSI's SnapshotMetadata service: the allocated blocks of a snapshot, and the blocks that changed
//! since an earlier one.
//!
//! Allocated blocks are those outside the holes of the file. Changed blocks are found by comparing
//! allocated ranges, so the result is exact. Both streams contain ascending ranges that do not
//! touch. A stream has at least one message, which reports type and size. The files stay open
//! during the stream, so a snapshot may be deleted in the meantime.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};

use crate::catalog::{Backing, RecordState, SnapshotRecord};
use crate::error::{
    FailedPrecondition, HostError, InvalidArgument, MetadataError, SnapshotNotFound,
};
use crate::plugin::Plugin;
use crate::request;
use crate::size::OutOfRange;

use nomad_csi_proto as proto;
use nomad_csi_proto::snapshot_metadata_server::SnapshotMetadata;

/// The unit of comparison and the minimum length of a range.
const BLOCK: u64 = 4096;
/// The maximum number of ranges in a message.
const MAX_RANGES_PER_MESSAGE: usize = 1024;
/// How many messages may wait for a slow reader.
const CHANNEL_CAPACITY: usize = 4;

/// Serves [`SnapshotMetadata`].
pub(crate) struct SnapshotMetadataService(pub(crate) Arc<Plugin>);

/// The open file of a snapshot.
struct SnapshotFile {
    file: File,
    bytes: u64,
}

/// The start and the limits of a stream.
#[derive(Clone, Copy)]
struct StreamOptions {
    start: u64,
    max_ranges: usize,
    bytes: u64,
}

#[async_trait]
impl SnapshotMetadata for SnapshotMetadataService {
    type GetMetadataAllocatedStream =
        ReceiverStream<Result<proto::GetMetadataAllocatedResponse, Status>>;
    type GetMetadataDeltaStream = ReceiverStream<Result<proto::GetMetadataDeltaResponse, Status>>;

    async fn get_metadata_allocated(
        &self,
        request: Request<proto::GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        let request = request.get_ref();
        let id = request::id("snapshot", &request.snapshot_id)?;
        let max_ranges = max_ranges(request.max_results)?;
        let opened = self.0.call(move |plugin| Ok::<_, MetadataError>(open(plugin, &id)?.1));
        let opened = opened.await?;
        let options = stream_options(request.starting_offset, max_ranges, opened.bytes)?;
        let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let send = RangeSender::new(sender, options, |options, ranges| {
            proto::GetMetadataAllocatedResponse {
                block_metadata_type: proto::BlockMetadataType::VariableLength.into(),
                volume_capacity_bytes: wire(options.bytes),
                block_metadata: ranges,
            }
        });
        stream(move || {
            let mut send = send;
            let result =
                visit_allocated(&opened.file, options.start, options.bytes, &mut |start, end| {
                    send.range(start, end)
                });
            send.finish(result);
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_metadata_delta(
        &self,
        request: Request<proto::GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        let request = request.get_ref();
        let base = request::id("base snapshot", &request.base_snapshot_id)?;
        let target = request::id("target snapshot", &request.target_snapshot_id);
        let target = target?;
        let max_ranges = max_ranges(request.max_results)?;
        let opened = self.0.call(move |plugin| {
            let (base, base_file) = open(plugin, &base)?;
            let (target, target_file) = open(plugin, &target)?;
            if base.source != target.source {
                return Err(
                    InvalidArgument("the snapshots are of different volumes".to_owned()).into()
                );
            }
            Ok::<_, MetadataError>((base_file, target_file))
        });
        let (base, target) = opened.await?;
        let options = stream_options(request.starting_offset, max_ranges, target.bytes)?;
        let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let send =
            RangeSender::new(sender, options, |options, ranges| proto::GetMetadataDeltaResponse {
                block_metadata_type: proto::BlockMetadataType::VariableLength.into(),
                volume_capacity_bytes: wire(options.bytes),
                block_metadata: ranges,
            });
        stream(move || {
            let mut send = send;
            let listener = send.sender.clone();
            let is_connected = || !listener.is_closed();
            let result = visit_changed(
                &base.file,
                &target.file,
                options,
                &is_connected,
                &mut |start, end| send.range(start, end),
            );
            send.finish(result);
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Reads files on a blocking thread while the client is connected.
fn stream(read: impl FnOnce() + Send + 'static) {
    drop(tokio::task::spawn_blocking(read));
}

fn open(plugin: &Plugin, id: &str) -> Result<(SnapshotRecord, SnapshotFile), MetadataError> {
    let found = plugin.catalog.snapshot(id).map_err(HostError::from)?;
    let ready = found.filter(|found| found.state == RecordState::Ready);
    let record = ready.ok_or_else(|| SnapshotNotFound(id.to_owned()))?;
    if record.content.backing == Backing::Directory {
        return Err(FailedPrecondition(format!(
            "snapshot `{id}` is a directory without blocks: copy all of it"
        ))
        .into());
    }
    let opened = File::open(plugin.snapshots.path_of(id));
    let file = opened.map_err(HostError::io(format!("open the data of snapshot `{id}`")))?;
    let bytes = record.content.bytes;
    Ok((record, SnapshotFile { file, bytes }))
}

fn max_ranges(max_results: i32) -> Result<usize, InvalidArgument> {
    match usize::try_from(max_results) {
        Ok(0) => Ok(MAX_RANGES_PER_MESSAGE),
        Ok(max_ranges) => Ok(max_ranges.min(MAX_RANGES_PER_MESSAGE)),
        Err(_) => Err(InvalidArgument(format!("max_results is negative: {max_results}"))),
    }
}

fn stream_options(
    starting_offset: i64,
    max_ranges: usize,
    bytes: u64,
) -> Result<StreamOptions, MetadataError> {
    match u64::try_from(starting_offset) {
        Ok(start) if start <= bytes => Ok(StreamOptions { start, max_ranges, bytes }),
        _ => Err(OutOfRange(format!(
            "starting offset {starting_offset} is outside the {bytes} bytes of the volume"
        ))
        .into()),
    }
}

/// Why a stream ends early.
enum StreamError {
    Disconnected,
    Io(std::io::Error),
}

impl From<std::io::Error> for StreamError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Collects ranges and sends them in messages.
struct RangeSender<M, F> {
    sender: mpsc::Sender<Result<M, Status>>,
    options: StreamOptions,
    message: F,
    /// The last range, which the next one may extend.
    last: Option<(u64, u64)>,
    ranges: Vec<proto::BlockMetadata>,
    has_sent: bool,
}

impl<M, F: Fn(StreamOptions, Vec<proto::BlockMetadata>) -> M> RangeSender<M, F> {
    fn new(sender: mpsc::Sender<Result<M, Status>>, options: StreamOptions, message: F) -> Self {
        Self { sender, options, message, last: None, ranges: vec![], has_sent: false }
    }

    fn range(&mut self, start: u64, end: u64) -> Result<(), StreamError> {
        match &mut self.last {
            Some((_, last)) if *last == start => *last = end,
            _ => {
                let last = self.last.replace((start, end));
                self.push(last)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, range: Option<(u64, u64)>) -> Result<(), StreamError> {
        self.ranges.extend(range.map(|(start, end)| proto::BlockMetadata {
            byte_offset: wire(start),
            size_bytes: wire(end - start),
        }));
        if self.ranges.len() >= self.options.max_ranges {
            self.send()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), StreamError> {
        let message = (self.message)(self.options, std::mem::take(&mut self.ranges));
        self.has_sent = true;
        self.sender.blocking_send(Ok(message)).map_err(|_| StreamError::Disconnected)
    }

    fn finish(mut self, result: Result<(), StreamError>) {
        let result = result.and_then(|()| {
            let last = self.last.take();
            self.push(last)?;
            if self.ranges.is_empty() && self.has_sent {
                return Ok(());
            }
            self.send()
        });
        if let Err(StreamError::Io(error)) = result {
            let machine = HostError::io("read the data of a snapshot")(error);
            let status = Status::from(MetadataError::from(machine));
            drop(self.sender.blocking_send(Err(status)));
        }
    }
}

/// Visits the allocated ranges from `start`, in whole blocks.
fn visit_allocated(
    file: &File,
    start: u64,
    bytes: u64,
    visit: &mut dyn FnMut(u64, u64) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let mut at = start / BLOCK * BLOCK;
    while at < bytes {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data / BLOCK * BLOCK,
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(StreamError::Io(error.into())),
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data.max(at)));
        let hole = hole.map_err(|error| StreamError::Io(error.into()))?;
        let end = hole.next_multiple_of(BLOCK).min(bytes);
        let begin = data.max(at);
        if begin < end {
            visit(begin, end)?;
        }
        at = end.max(at + BLOCK);
    }
    Ok(())
}

/// Visits the changed blocks from the start of the stream. A long range without changes sends
/// nothing, so the loop checks whether the client is still connected.
fn visit_changed(
    base: &File,
    target: &File,
    options: StreamOptions,
    is_connected: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(u64, u64) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let mut ranges = vec![];
    for file in [base, target] {
        visit_allocated(file, options.start, options.bytes, &mut |start, end| {
            ranges.push((start, end));
            Ok(())
        })?;
    }
    ranges.sort_unstable();
    let (mut before, mut now) = (vec![0; 1 << 18], vec![0; 1 << 18]);
    let mut at = 0;
    for (start, end) in ranges {
        at = at.max(start);
        while at < end {
            if !is_connected() {
                return Err(StreamError::Disconnected);
            }
            let length = usize::try_from(end - at).map_or(now.len(), |rest| rest.min(now.len()));
            read(base, &mut before[..length], at)?;
            read(target, &mut now[..length], at)?;
            let block = usize::try_from(BLOCK).unwrap_or(length);
            let pairs = before[..length].chunks(block).zip(now[..length].chunks(block));
            for (one, other) in pairs {
                let next = at + one.len() as u64;
                if one != other {
                    visit(at, next)?;
                }
                at = next;
            }
        }
    }
    Ok(())
}

/// Fills the buffer. Bytes beyond the end of the file are zero, as in a volume that grew.
fn read(file: &File, buffer: &mut [u8], at: u64) -> Result<(), StreamError> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    buffer[done..].fill(0);
    Ok(())
}

fn wire(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
