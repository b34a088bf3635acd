//! CSI's SnapshotMetadata service: which blocks of a snapshot hold data, and which changed since an
//! earlier one.
//!
//! What is allocated is what the file system says is no hole. What changed is found by comparing
//! where either has data, so it is exact. Both are streams of ranges in ascending order that touch
//! nowhere; a stream has at least one message, so that type and size are always told (`csi-spec`
//! 5.24). The files are open while they are read: a snapshot may be deleted meanwhile.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};

use super::catalog::{Backing, SnapshotRecord, Stage};
use super::controller::invalid;
use super::error::{Invalid, Machine, MetadataError, NoSnapshot, Unfit};
use super::plugin::Plugin;
use super::request;
use super::size::OutOfRange;
use crate::csi::proto;
use crate::csi::proto::snapshot_metadata_server::SnapshotMetadata;

/// The unit of comparison, and the least range that is told.
const BLOCK: u64 = 4096;
/// How many ranges a message has at most.
const LARGEST_MESSAGE: usize = 1024;
/// How many messages wait for a slow reader.
const WAITING: usize = 4;

/// Serves [`SnapshotMetadata`].
pub(super) struct MetadataService(pub(super) Arc<Plugin>);

/// A snapshot, open.
struct Opened {
    file: File,
    bytes: u64,
}

/// What a stream says in every message.
#[derive(Clone, Copy)]
struct Asked {
    start: u64,
    most: usize,
    bytes: u64,
}

#[async_trait]
impl SnapshotMetadata for MetadataService {
    type GetMetadataAllocatedStream =
        ReceiverStream<Result<proto::GetMetadataAllocatedResponse, Status>>;
    type GetMetadataDeltaStream = ReceiverStream<Result<proto::GetMetadataDeltaResponse, Status>>;

    async fn get_metadata_allocated(
        &self,
        request: Request<proto::GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        let request = request.get_ref();
        let id = request::id("snapshot", &request.snapshot_id).map_err(invalid)?;
        let most = most(request.max_results).map_err(invalid)?;
        let opened = self
            .0
            .blocking(move |plugin| Ok::<_, MetadataError>(open(plugin, &id)?.1));
        let opened = opened.await?;
        let asked = asked(request.starting_offset, most, opened.bytes)?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let send = Sending::new(sender, asked, |asked, ranges| {
            proto::GetMetadataAllocatedResponse {
                block_metadata_type: proto::BlockMetadataType::VariableLength.into(),
                volume_capacity_bytes: wire(asked.bytes),
                block_metadata: ranges,
            }
        });
        stream(move || {
            let mut send = send;
            let told = allocated(&opened.file, asked.start, asked.bytes, &mut |start, end| {
                send.range(start, end)
            });
            send.finish(told);
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_metadata_delta(
        &self,
        request: Request<proto::GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        let request = request.get_ref();
        let base = request::id("base snapshot", &request.base_snapshot_id).map_err(invalid)?;
        let target = request::id("target snapshot", &request.target_snapshot_id);
        let target = target.map_err(invalid)?;
        let most = most(request.max_results).map_err(invalid)?;
        let opened = self.0.blocking(move |plugin| {
            let (base, base_file) = open(plugin, &base)?;
            let (target, target_file) = open(plugin, &target)?;
            if base.source != target.source {
                return Err(Invalid("the snapshots are of different volumes".to_owned()).into());
            }
            Ok::<_, MetadataError>((base_file, target_file))
        });
        let (base, target) = opened.await?;
        let asked = asked(request.starting_offset, most, target.bytes)?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let send = Sending::new(sender, asked, |asked, ranges| {
            proto::GetMetadataDeltaResponse {
                block_metadata_type: proto::BlockMetadataType::VariableLength.into(),
                volume_capacity_bytes: wire(asked.bytes),
                block_metadata: ranges,
            }
        });
        stream(move || {
            let mut send = send;
            let listener = send.sender.clone();
            let is_heard = || !listener.is_closed();
            let told = changed(
                &base.file,
                &target.file,
                asked,
                &is_heard,
                &mut |start, end| send.range(start, end),
            );
            send.finish(told);
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Reads files on a thread of its own, as long as somebody listens.
fn stream(read: impl FnOnce() + Send + 'static) {
    drop(tokio::task::spawn_blocking(read));
}

fn open(plugin: &Plugin, id: &str) -> Result<(SnapshotRecord, Opened), MetadataError> {
    let found = plugin.catalog.snapshot(id).map_err(Machine::from)?;
    let ready = found.filter(|found| found.stage == Stage::Ready);
    let record = ready.ok_or_else(|| NoSnapshot(id.to_owned()))?;
    if record.content.backing == Backing::Directory {
        return Err(Unfit(format!(
            "snapshot {id} is a directory and has no blocks: copy it whole"
        ))
        .into());
    }
    let opened = File::open(plugin.snapshots.path_of(id));
    let file = opened.map_err(Machine::files(format!("open the data of snapshot {id}")))?;
    let bytes = record.content.bytes;
    Ok((record, Opened { file, bytes }))
}

fn most(max_results: i32) -> Result<usize, Invalid> {
    match usize::try_from(max_results) {
        Ok(0) => Ok(LARGEST_MESSAGE),
        Ok(most) => Ok(most.min(LARGEST_MESSAGE)),
        Err(_) => Err(Invalid(format!("max_results is negative: {max_results}"))),
    }
}

fn asked(starting_offset: i64, most: usize, bytes: u64) -> Result<Asked, MetadataError> {
    match u64::try_from(starting_offset) {
        Ok(start) if start <= bytes => Ok(Asked { start, most, bytes }),
        _ => Err(OutOfRange(format!(
            "the starting offset {starting_offset} is not within the {bytes} bytes of the volume"
        ))
        .into()),
    }
}

/// Nobody listens any more, or a file cannot be read.
enum Stop {
    Gone,
    Failed(std::io::Error),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Makes messages of ranges.
struct Sending<M, F> {
    sender: mpsc::Sender<Result<M, Status>>,
    asked: Asked,
    message: F,
    /// The last range, which the next may continue.
    last: Option<(u64, u64)>,
    ranges: Vec<proto::BlockMetadata>,
    has_sent: bool,
}

impl<M, F: Fn(Asked, Vec<proto::BlockMetadata>) -> M> Sending<M, F> {
    fn new(sender: mpsc::Sender<Result<M, Status>>, asked: Asked, message: F) -> Self {
        Self {
            sender,
            asked,
            message,
            last: None,
            ranges: vec![],
            has_sent: false,
        }
    }

    fn range(&mut self, start: u64, end: u64) -> Result<(), Stop> {
        match &mut self.last {
            Some((_, last)) if *last == start => *last = end,
            _ => {
                let last = self.last.replace((start, end));
                self.keep(last)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, range: Option<(u64, u64)>) -> Result<(), Stop> {
        self.ranges
            .extend(range.map(|(start, end)| proto::BlockMetadata {
                byte_offset: wire(start),
                size_bytes: wire(end - start),
            }));
        if self.ranges.len() >= self.asked.most {
            self.send()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Stop> {
        let message = (self.message)(self.asked, std::mem::take(&mut self.ranges));
        self.has_sent = true;
        self.sender
            .blocking_send(Ok(message))
            .map_err(|_| Stop::Gone)
    }

    fn finish(mut self, told: Result<(), Stop>) {
        let told = told.and_then(|()| {
            let last = self.last.take();
            self.keep(last)?;
            if self.ranges.is_empty() && self.has_sent {
                return Ok(());
            }
            self.send()
        });
        if let Err(Stop::Failed(error)) = told {
            let machine = Machine::files("read the data of a snapshot")(error);
            let status = Status::from(MetadataError::from(machine));
            drop(self.sender.blocking_send(Err(status)));
        }
    }
}

/// Tells every range from `start` on that is no hole, in whole blocks.
fn allocated(
    file: &File,
    start: u64,
    bytes: u64,
    tell: &mut dyn FnMut(u64, u64) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut at = start / BLOCK * BLOCK;
    while at < bytes {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data / BLOCK * BLOCK,
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(Stop::Failed(error.into())),
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data.max(at)));
        let hole = hole.map_err(|error| Stop::Failed(error.into()))?;
        let end = hole.next_multiple_of(BLOCK).min(bytes);
        let begin = data.max(at);
        if begin < end {
            tell(begin, end)?;
        }
        at = end.max(at + BLOCK);
    }
    Ok(())
}

/// Tells every block from the start on that differs. Much may be alike, of which nothing is told: so
/// whether anybody listens is asked beside.
fn changed(
    base: &File,
    target: &File,
    asked: Asked,
    is_heard: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(u64, u64) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut ranges = vec![];
    for file in [base, target] {
        allocated(file, asked.start, asked.bytes, &mut |start, end| {
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
            if !is_heard() {
                return Err(Stop::Gone);
            }
            let length = usize::try_from(end - at).map_or(now.len(), |rest| rest.min(now.len()));
            read(base, &mut before[..length], at)?;
            read(target, &mut now[..length], at)?;
            let block = usize::try_from(BLOCK).unwrap_or(length);
            let pairs = before[..length]
                .chunks(block)
                .zip(now[..length].chunks(block));
            for (one, other) in pairs {
                let next = at + one.len() as u64;
                if one != other {
                    tell(at, next)?;
                }
                at = next;
            }
        }
    }
    Ok(())
}

/// Reads; what is beyond the end is zero, as it would be in a volume that grew.
fn read(file: &File, buffer: &mut [u8], at: u64) -> Result<(), Stop> {
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
