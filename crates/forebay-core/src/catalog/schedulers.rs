//! Every policy by name: one line in [`POLICIES`] and one arm in [`with_policy`] each.

use super::shapers;
use crate::contract::policy::{AnyPolicy, Policy};
use crate::contract::spec::{Spec, SpecError};
use crate::contract::time::Nanos;
use crate::elevator::{
    Anticipatory, AnticipatoryConfig, Bfq, BfqConfig, Bid, BidConfig, BlockLayer, Cfq, CfqConfig,
    Deadline, DeadlineConfig, Forebay, ForebayConfig, Limits, NoScheduler, Noop, PaperCfq,
    PaperDeadline,
};

/// A policy that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its name, as in `--policy`.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Its parameters with their defaults, as in `name:key=value`.
    pub parameters: &'static str,
}

/// Every listed scheduler, simplest first. [`shapers::SHAPERS`] lists the shapers.
pub const POLICIES: &[Listed] = &[
    Listed { name: "noop", summary: "first in, first out, merging neighbours", parameters: "" },
    Listed {
        name: "deadline",
        summary: "batches in address order, broken off for requests that waited too long",
        parameters: "form=linux|paper read-expire-ms=500 write-expire-ms=5000 writes-starved=2 \
                     fifo-batch=16",
    },
    Listed {
        name: "anticipatory",
        summary: "sweeps in read and write batches, waiting after a read for its process's next",
        parameters: "antic-expire-ms=6.7 read-expire-ms=125 write-expire-ms=250 \
                     read-batch-expire-ms=500 write-batch-expire-ms=125",
    },
    Listed {
        name: "cfq",
        summary: "streams take turns, each alone with the disk for a slice of time",
        parameters: "form=linux|paper quantum=8 slice-sync-ms=100 slice-async-ms=40 \
                     slice-idle-ms=8 fifo-expire-sync-ms=125 fifo-expire-async-ms=250 \
                     back-seek-max-kib=16384 back-seek-penalty=2 low-latency=yes|no",
    },
    Listed {
        name: "none",
        summary: "multi-queue without a scheduler: streams give by turns, merging only their own",
        parameters: "requests-max=32",
    },
    Listed {
        name: "mq-deadline",
        summary: "deadline for multi-queue: one pool of tags, batches resume where they were",
        parameters: "read-expire-ms=500 write-expire-ms=5000 writes-starved=2 fifo-batch=16 \
                     front-merges=yes|no requests-max=64",
    },
    Listed {
        name: "bfq",
        summary: "streams take turns of so many bytes each, by fair queueing, new ones weighing more",
        parameters: "slice-idle-ms=8 timeout-sync-ms=125 max-budget-kib=0 fifo-expire-sync-ms=125 \
                     fifo-expire-async-ms=250 back-seek-max-kib=16384 back-seek-penalty=2 \
                     low-latency=yes|no requests-max=64",
    },
    Listed {
        name: "bid",
        summary: "BID-HDD: processes staged apart and flushed whole, waiting where it should pay",
        parameters: "history=8 wait-ms=10 read-deadline-ms=500 write-deadline-ms=5000 \
                     staging-limit=yes|no",
    },
    Listed {
        name: "forebay",
        summary: "long sweeps by turns, waiting for streams found by address as long as a gain is \
                  expected; a bound on waits since admission, kept where a full queue is served \
                  within it (figures: bound_held, ios_beyond_bound)",
        parameters: "wait-ms=8 hold-ms=200 read-turn-ms=500 write-turn-ms=80 bound-ms=10000",
    },
];

/// Parameters that every policy with a block layer takes. Where there is a `requests-max`, that is
/// the default of `reads-max` and `writes-max`.
pub const BLOCK_PARAMETERS: &str =
    "merge=yes|no reads-max=128 writes-max=128 request-max-kib=512 bio-max-kib=1024";

/// Something done with a policy whose type is known at compile time.
pub trait PolicyVisitor {
    /// What comes of it.
    type Out;
    /// Does it.
    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Self::Out;
}

/// Builds the policy that `spec` names, for a device whose longest I/O is `len_max` bytes, and
/// hands it to `visitor` with its own type, so that hot loops are compiled for it.
pub fn with_policy<V: PolicyVisitor>(
    spec: &str,
    len_max: u32,
    visitor: V,
) -> Result<V::Out, SpecError> {
    let spec = Spec::parse(spec)?;
    match spec.name() {
        "noop" => {
            let limits = limits(&spec, len_max)?;
            spec.finish()?;
            Ok(visitor.visit(BlockLayer::new(Noop::default(), limits)))
        }
        "deadline" => {
            let limits = limits(&spec, len_max)?;
            let paper = spec.choice("form", &["linux", "paper"])? == 1;
            let config = deadline(&spec, DeadlineConfig::default())?;
            spec.finish()?;
            if paper {
                let elevator = PaperDeadline::new(config.read_expire, config.write_expire);
                return Ok(visitor.visit(BlockLayer::new(elevator, limits)));
            }
            Ok(visitor.visit(BlockLayer::new(Deadline::new(config), limits)))
        }
        "cfq" => {
            let limits = limits(&spec, len_max)?;
            let paper = spec.choice("form", &["linux", "paper"])? == 1;
            let config = cfq(&spec)?;
            spec.finish()?;
            if paper {
                return Ok(visitor.visit(BlockLayer::new(PaperCfq::new(config.quantum), limits)));
            }
            Ok(visitor.visit(BlockLayer::new(Cfq::new(config), limits)))
        }
        "anticipatory" => {
            let limits = limits(&spec, len_max)?;
            let config = anticipatory(&spec)?;
            spec.finish()?;
            Ok(visitor.visit(BlockLayer::new(Anticipatory::new(config), limits)))
        }
        "forebay" => {
            let limits = limits(&spec, len_max)?;
            let config = forebay(&spec)?;
            spec.finish()?;
            Ok(visitor.visit(BlockLayer::new(Forebay::new(config), limits)))
        }
        "none" => {
            let limits = multi_queue_limits(&spec, len_max, SATA_TAGS)?;
            spec.finish()?;
            Ok(visitor.visit(BlockLayer::new(NoScheduler::default(), limits)))
        }
        "mq-deadline" => {
            let limits = multi_queue_limits(&spec, len_max, 2 * SATA_TAGS)?;
            let mut config = deadline(&spec, DeadlineConfig::multi_queue())?;
            config.front_merges = spec.choice("front-merges", &["yes", "no"])? == 0;
            spec.finish()?;
            Ok(visitor.visit(BlockLayer::new(Deadline::new(config), limits)))
        }
        "bfq" => {
            let limits = multi_queue_limits(&spec, len_max, 2 * SATA_TAGS)?;
            let config = bfq(&spec)?;
            spec.finish()?;
            Ok(visitor.visit(BlockLayer::new(Bfq::new(config), limits)))
        }
        "bid" => {
            let limits = bid_limits(&spec, len_max)?;
            let config = bid(&spec)?;
            spec.finish()?;
            Ok(visitor.visit(BlockLayer::new(Bid::new(config), limits)))
        }
        name if shapers::is_shaper(name) => shapers::with_shaper(&spec, len_max, None, visitor),
        name => {
            let listed = POLICIES.iter().chain(shapers::SHAPERS);
            let known: Vec<&str> = listed.map(|listed| listed.name).collect();
            Err(SpecError(format!("no policy '{name}', expected one of {}", known.join(", "))))
        }
    }
}

/// Builds the policy that `spec` names as a boxed value.
pub fn build(spec: &str, len_max: u32) -> Result<AnyPolicy, SpecError> {
    with_policy(spec, len_max, Boxed)
}

/// Boxes a policy.
pub(super) struct Boxed;

impl PolicyVisitor for Boxed {
    type Out = AnyPolicy;
    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Self::Out {
        Box::new(policy)
    }
}

/// Commands that a SATA drive queues. A multi-queue scheduler may hold twice as many requests
/// (Linux `nr_requests`), and 256 over deeper devices.
const SATA_TAGS: u32 = 32;

fn multi_queue_limits(spec: &Spec, len_max: u32, tags: u32) -> Result<Limits, SpecError> {
    let tags = spec.at_least("requests-max", tags, 1)?;
    let default = Limits { reads_max: tags, writes_max: tags, ..Limits::default() };
    Ok(Limits { requests_max: tags, ..limits_from(spec, len_max, default)? })
}

pub(super) fn limits(spec: &Spec, len_max: u32) -> Result<Limits, SpecError> {
    limits_from(spec, len_max, Limits::default())
}

fn limits_from(spec: &Spec, len_max: u32, default: Limits) -> Result<Limits, SpecError> {
    let kib = |key, default_bytes: u32| {
        let kib = spec.at_least(key, default_bytes / 1024, 4)?;
        Ok(kib.saturating_mul(1024))
    };
    Ok(Limits {
        bio_len_max: kib("bio-max-kib", default.bio_len_max)?,
        request_len_max: kib("request-max-kib", default.request_len_max)?.min(len_max.max(512)),
        reads_max: spec.at_least("reads-max", default.reads_max, 1)?,
        writes_max: spec.at_least("writes-max", default.writes_max, 1)?,
        merging: spec.choice("merge", &["yes", "no"])? == 0,
        requests_max: default.requests_max,
    })
}

/// The limits of a queue of staged requests.
pub(super) fn bid_limits(spec: &Spec, len_max: u32) -> Result<Limits, SpecError> {
    let mut limits = limits(spec, len_max)?;
    if spec.choice("staging-limit", &["yes", "no"])? == 1 {
        (limits.reads_max, limits.writes_max) = (u32::MAX, u32::MAX);
    }
    Ok(limits)
}

fn deadline(spec: &Spec, default: DeadlineConfig) -> Result<DeadlineConfig, SpecError> {
    Ok(DeadlineConfig {
        read_expire: spec.millis("read-expire-ms", default.read_expire.as_millis_f64())?,
        write_expire: spec.millis("write-expire-ms", default.write_expire.as_millis_f64())?,
        writes_starved: spec.at_least("writes-starved", default.writes_starved, 1)?,
        fifo_batch: spec.at_least("fifo-batch", default.fifo_batch, 1)?,
        ..default
    })
}

fn anticipatory(spec: &Spec) -> Result<AnticipatoryConfig, SpecError> {
    let default = AnticipatoryConfig::default();
    let millis = |key, default: Nanos| spec.millis(key, default.as_millis_f64());
    Ok(AnticipatoryConfig {
        antic_expire: millis("antic-expire-ms", default.antic_expire)?,
        expire: [
            millis("read-expire-ms", default.expire[0])?,
            millis("write-expire-ms", default.expire[1])?,
        ],
        batch_expire: [
            millis("read-batch-expire-ms", default.batch_expire[0])?,
            millis("write-batch-expire-ms", default.batch_expire[1])?,
        ],
    })
}

fn cfq(spec: &Spec) -> Result<CfqConfig, SpecError> {
    let default = CfqConfig::default();
    let millis = |key, default: Nanos| spec.millis(key, default.as_millis_f64());
    let back_seek_max_kib = (default.back_seek_max / 1024) as u32;
    Ok(CfqConfig {
        quantum: spec.at_least("quantum", default.quantum, 1)?,
        slice_sync: millis("slice-sync-ms", default.slice_sync)?,
        slice_async: millis("slice-async-ms", default.slice_async)?,
        slice_idle: millis("slice-idle-ms", default.slice_idle)?,
        fifo_expire_sync: millis("fifo-expire-sync-ms", default.fifo_expire_sync)?,
        fifo_expire_async: millis("fifo-expire-async-ms", default.fifo_expire_async)?,
        back_seek_max: 1024
            * u64::from(spec.at_least("back-seek-max-kib", back_seek_max_kib, 0)?),
        back_seek_penalty: spec.at_least("back-seek-penalty", default.back_seek_penalty, 1)?,
        low_latency: spec.choice("low-latency", &["yes", "no"])? == 0,
        ..default
    })
}

fn bfq(spec: &Spec) -> Result<BfqConfig, SpecError> {
    let default = BfqConfig::default();
    let millis = |key, default: Nanos| spec.millis(key, default.as_millis_f64());
    let bytes = |key, default_bytes: u64| {
        spec.at_least(key, (default_bytes / 1024) as u32, 0).map(|kib| 1024 * u64::from(kib))
    };
    Ok(BfqConfig {
        slice_idle: millis("slice-idle-ms", default.slice_idle)?,
        timeout: millis("timeout-sync-ms", default.timeout)?,
        max_budget: bytes("max-budget-kib", default.max_budget)?,
        fifo_expire_sync: millis("fifo-expire-sync-ms", default.fifo_expire_sync)?,
        fifo_expire_async: millis("fifo-expire-async-ms", default.fifo_expire_async)?,
        back_seek_max: bytes("back-seek-max-kib", default.back_seek_max)?,
        back_seek_penalty: spec.at_least("back-seek-penalty", default.back_seek_penalty, 1)?,
        low_latency: spec.choice("low-latency", &["yes", "no"])? == 0,
    })
}

fn forebay(spec: &Spec) -> Result<ForebayConfig, SpecError> {
    let default = ForebayConfig::default();
    let millis = |key, default: Nanos| spec.millis(key, default.as_millis_f64());
    Ok(ForebayConfig {
        wait: millis("wait-ms", default.wait)?,
        hold: millis("hold-ms", default.hold)?,
        turn: [millis("read-turn-ms", default.turn[0])?, millis("write-turn-ms", default.turn[1])?],
        bound: millis("bound-ms", default.bound)?,
    })
}

pub(super) fn bid(spec: &Spec) -> Result<BidConfig, SpecError> {
    let default = BidConfig::default();
    let history = spec.at_least("history", default.history, 1)?;
    if history > 32 {
        return Err(SpecError(format!(
            "'{}': history: got {history}, expected 1 to 32",
            spec.text()
        )));
    }
    Ok(BidConfig {
        history,
        wait_default: spec.millis("wait-ms", default.wait_default.as_millis_f64())?,
        read_deadline: spec.millis("read-deadline-ms", default.read_deadline.as_millis_f64())?,
        write_deadline: spec.millis("write-deadline-ms", default.write_deadline.as_millis_f64())?,
    })
}
