//! Builds shapers by name. Each has one row in [`BUILT`].

use crate::contract::{AnyPolicy, Class, Given, Listed, Nanos, Origin, Parameter, Spec, SpecError};
use crate::rtt::{Classes, RATE_MAX_IOPS, Rtt, SERVICE};
use crate::shape::{
    Above, Admission, Capacity, DmClock, Fcfs, Following, Miser, Pace, Promise, Promised,
    Recombine, Sfq, Shape, Shaper, Share, Split, TokenBucket, Wf2q,
};

/// A shaper as listed, and the function that builds it.
struct BuiltShaper {
    listed: Listed,
    build: fn(Building<'_>) -> Result<AnyPolicy, SpecError>,
}

/// All shapers. A shaper that accepts `cmin` and `delta-ms` accepts a list of tiers for both, as in
/// `cmin=300/40:delta-ms=20/50`.
const BUILT: &[BuiltShaper] = &[
    BuiltShaper {
        listed: Listed {
            name: "fcfs",
            origin: Origin::Forebay,
            summary: "first come, first served, in one class",
            parameters: &[],
        },
        build: |shaper| shaper.of_one_class(|_| Ok(Fcfs)),
    },
    BuiltShaper {
        listed: Listed {
            name: "split",
            origin: Origin::Forebay,
            summary: "a separate server for each of RTT's classes, with rates cmin and delta-c",
            parameters: &[&[CMIN, DELTA_C]],
        },
        build: |shaper| shaper.of_tiers(true, |tiers, _| Split::new(tiers)),
    },
    BuiltShaper {
        listed: Listed {
            name: "wf2q",
            origin: Origin::Forebay,
            summary: "RTT's classes share a server by weights cmin and delta-c, with WF2Q+",
            parameters: &[&[CMIN, DELTA_C], FOLLOWED],
        },
        build: |shaper| shaper.of_tiers(false, Wf2q::new),
    },
    BuiltShaper {
        listed: Listed {
            name: "sfq",
            origin: Origin::Forebay,
            summary: "RTT's classes share a server by weights cmin and delta-c, with start-time fair \
                queueing",
            parameters: &[&[CMIN, DELTA_C], FOLLOWED],
        },
        build: |shaper| shaper.of_tiers(false, Sfq::new),
    },
    BuiltShaper {
        listed: Listed {
            name: "miser",
            origin: Origin::Forebay,
            summary: "serves RTT's overflow whenever the slack of promised requests allows it",
            parameters: &[
                &[
                    CMIN,
                    Parameter::choice("admission", &["length", "rate"]).about(
                        "whether promises depend on the length of the queue, or on the requests that \
                         cmin could serve",
                    ),
                    Parameter::whole("slack-min", 1, 1).about(
                        "other requests are served as long as promised requests can wait for this \
                            many further requests",
                    ),
                ],
                FOLLOWED,
            ],
        },
        build: |shaper| shaper.miser(),
    },
    BuiltShaper {
        listed: Listed {
            name: "promised",
            origin: Origin::Forebay,
            summary: "RTT for each stream, as in cmin=300/0:delta-ms=10; 0 means no promise; requests \
                beyond the promises share the remaining capacity by weight",
            parameters: &[
                &[
                    Parameter::own("cmin", "IOPS").about(
                        "the promised rate of each stream in requests a second, such as 300/0; \
                            0: none",
                    ),
                    Parameter::own("weight", "1").about(
                        "weights for sharing the remaining capacity, one number per stream, \
                            such as 1/5",
                    ),
                    DELTA_C,
                    Parameter::choice("shared", &["no", "yes"]).about(
                        "whether stream s uses entry s modulo the length of cmin's list as its \
                            promise and weight; streams with the same entry get equal parts",
                    ),
                ],
                FOLLOWED,
            ],
        },
        build: |shaper| shaper.promised(),
    },
    BuiltShaper {
        listed: Listed {
            name: "token-bucket",
            origin: Origin::Forebay,
            summary: "limits requests to rate per second, with bursts of burst requests",
            parameters: &[
                &[
                    Parameter::own("rate", "IOPS").about("maximum rate in requests a second"),
                    Parameter::whole("burst", 1, 1).about(
                        "requests that may be issued at once after \
                        a pause",
                    ),
                ],
                FOLLOWED,
            ],
        },
        build: |shaper| shaper.of_one_class(Building::bucket),
    },
    BuiltShaper {
        listed: Listed {
            name: "dmclock",
            origin: Origin::Forebay,
            summary: "each stream has a reservation, a weight and a limit, as in reservation=100/0; \
                the last value applies to all later streams",
            parameters: &[
                &[
                    Parameter::own("reservation", "0").about(
                        "the guaranteed rate of each stream in requests a second, such as \
                            100/0; 0: none",
                    ),
                    Parameter::own("weight", "1").about(
                        "weights for sharing the remaining capacity, one number per stream, \
                            such as 1/5",
                    ),
                    Parameter::own("limit", "0").about(
                        "the maximum rate of each stream in requests a second, such as 0/50; \
                            0: no limit",
                    ),
                ],
                FOLLOWED,
            ],
        },
        build: |shaper| shaper.of_one_class(|shaper| Ok(DmClock::new(clients(shaper.spec)?))),
    },
];

/// All shapers, as listed.
pub const SHAPERS: &[Listed] = &{
    let mut all = [BUILT[0].listed; BUILT.len()];
    let mut nth = 1;
    while nth < all.len() {
        all[nth] = BUILT[nth].listed;
        nth += 1;
    }
    all
};

/// Parameters that every shaper accepts. With `over`, the shaper runs above another policy or
/// placement and passes it at most `depth` requests at a time. In that policy's spec, `+` stands
/// for `:` and `++` for `+`.
pub const SHAPER_PARAMETERS: &[Parameter] = &[
    Parameter::own("delta-ms", "10")
        .about("the latency bound; a list such as 20/50 if cmin is a list"),
    Parameter::choice("dependencies", &["yes", "no"])
        .about("whether overlapping requests wait for each other if one of them writes"),
    Parameter::whole("depth", 1, 1).about("maximum number of requests at the device"),
    Parameter::own("over", "NONE").about(
        "the policy below, such as mq-deadline+fifo-batch=32, with + instead of :; not \
            available with split",
    ),
];

const CMIN: Parameter = Parameter::own("cmin", "IOPS")
    .about("the promised rate in requests a second, from forebay plan capacity; tiers as 300/40");
const DELTA_C: Parameter = Parameter::own("delta-c", "1/delta").about(
    "the rate for all other requests, in addition to \
        cmin",
);

/// Parameters for the server's capacity: whether rates are fixed or follow the actual rate, and the
/// limits of the adjustment in percent.
const FOLLOWED: &[Parameter] = &[
    Parameter::choice("capacity", &["fixed", "measured"])
        .about("whether rates are fixed, or decrease while the server is slower"),
    Parameter::whole("pace-min-percent", 10, 1)
        .about("with capacity=measured: rates never fall below this percentage"),
    Parameter::whole("pace-max-percent", 100, 1).about(
        "with capacity=measured: rates never rise above this percentage; from \
            pace-min-percent to 10000",
    ),
];

/// Returns whether `name` is the name of a shaper.
pub fn is_shaper(name: &str) -> bool {
    SHAPERS.iter().any(|listed| listed.name == name)
}

/// Builds the shaper `spec`, for a device whose longest I/O is `len_max` bytes, above the stack
/// `beneath` if given. [`is_shaper`] must be true for its name.
pub(crate) fn shaper(
    spec: &Spec,
    len_max: u32,
    beneath: Option<AnyPolicy>,
) -> Result<AnyPolicy, SpecError> {
    if beneath.is_some() {
        // The caller has already used this parameter; reading it here avoids an "unused" error.
        spec.inner("over");
    }
    let Some(built) = BUILT.iter().find(|built| built.listed.name == spec.name()) else {
        return Err(SpecError(format!("no shaper '{}'", spec.name())));
    };
    let mut tables = built.listed.parameters.to_vec();
    tables.push(SHAPER_PARAMETERS);
    let given = Given::new(spec, &tables);
    let base = Base {
        depth: given.whole("depth")?,
        len_max,
        dependencies: given.is_first("dependencies")?,
        following: match built.listed.parameters.contains(&FOLLOWED) {
            true => following(&given)?,
            false => None,
        },
    };
    (built.build)(Building { spec, given, base, beneath })
}

/// The inputs for building a shaper.
struct Building<'a> {
    spec: &'a Spec,
    given: Given<'a>,
    base: Base,
    /// The stack below the shaper, if given.
    beneath: Option<AnyPolicy>,
}

impl Building<'_> {
    /// Builds a shaper without decomposition.
    fn of_one_class<R: Recombine + Send + 'static>(
        self,
        recombine: impl FnOnce(&Self) -> Result<R, SpecError>,
    ) -> Result<AnyPolicy, SpecError> {
        let recombine = recombine(&self)?;
        finish(self.spec, recombine, self.base.one_class(self.spec)?, self.beneath)
    }

    /// Builds a shaper that shares one server or several among the tiers and the remaining requests
    /// by their rates.
    fn of_tiers<R: Recombine + Send + 'static>(
        self,
        own_servers: bool,
        recombine: impl FnOnce(Classes, &[u64]) -> R,
    ) -> Result<AnyPolicy, SpecError> {
        let mut asked = TierSpec::new(self.spec)?;
        asked.delta_c(self.spec)?;
        let recombine = recombine(asked.tiers()?, &asked.rates);
        finish(self.spec, recombine, self.base.classes(&asked, own_servers), self.beneath)
    }

    fn bucket(&self) -> Result<TokenBucket, SpecError> {
        Ok(TokenBucket::new(rate(self.spec, "rate")?, self.given.whole("burst")?))
    }

    fn promised(self) -> Result<AnyPolicy, SpecError> {
        let spec = self.spec;
        let promises = promises(spec)?;
        let longest = promises.iter().filter_map(|one| one.kept).map(|(_, within)| within).max();
        let within = longest.unwrap_or(Nanos::from_millis(10));
        let class = |name: &str| Class { name: name.to_string(), within };
        let shape = self.base.shape(vec![class("kept"), class("rest")], Vec::new());
        let delta_c: u64 = spec.get("delta-c", 0, RATE)?;
        if delta_c > RATE_MAX_IOPS {
            return Err(error(spec, "delta-c", &delta_c.to_string(), RATE));
        }
        let delta_c = (delta_c > 0).then_some(delta_c);
        let is_shared = !self.given.is_first("shared")?;
        finish(spec, Promised::new(promises, delta_c, is_shared), shape, self.beneath)
    }

    fn miser(self) -> Result<AnyPolicy, SpecError> {
        let asked = TierSpec::new(self.spec)?;
        let slack_min = self.given.whole("slack-min")?;
        let admission = match self.given.is_first("admission")? {
            true => Admission::Length,
            false => Admission::Rate(asked.tiers()?),
        };
        let miser = Miser::new(admission, &asked.places(), slack_min, asked.capacity());
        finish(self.spec, miser, self.base.classes(&asked, false), self.beneath)
    }
}

fn finish<R: Recombine + Send + 'static>(
    spec: &Spec,
    recombine: R,
    shape: Shape,
    beneath: Option<AnyPolicy>,
) -> Result<AnyPolicy, SpecError> {
    spec.finish()?;
    let servers = shape.servers.len();
    let shaper = Shaper::new(recombine, shape);
    let Some(beneath) = beneath else { return Ok(Box::new(shaper)) };
    if servers > 0 {
        let text = spec.text();
        return Err(SpecError(format!(
            "'{text}': got {servers} servers with their own rates, expected a shaper of one server \
             above another policy"
        )));
    }
    Ok(Box::new(Above::new(shaper, beneath)))
}

/// The parameters common to all shapers.
struct Base {
    depth: u32,
    len_max: u32,
    dependencies: bool,
    following: Option<Following>,
}

impl Base {
    fn one_class(&self, spec: &Spec) -> Result<Shape, SpecError> {
        let within = spec.millis("delta-ms", 10.0)?;
        if within == Nanos::ZERO {
            return Err(error(spec, "delta-ms", "0", BOUND));
        }
        let classes = vec![Class { name: "all".to_string(), within }];
        Ok(self.shape(classes, Vec::new()))
    }

    /// Returns one class per tier and one for the remaining requests, whose bound is that of the
    /// last tier.
    fn classes(&self, asked: &TierSpec, own_servers: bool) -> Shape {
        let bounds = asked.within.iter().chain(asked.within.last());
        let class =
            |(at, within): (usize, &Nanos)| Class { name: format!("q{}", at + 1), within: *within };
        let servers = if own_servers { asked.rates.clone() } else { Vec::new() };
        self.shape(bounds.enumerate().map(class).collect(), servers)
    }

    fn shape(&self, classes: Vec<Class>, servers: Vec<u64>) -> Shape {
        let Base { depth, len_max, dependencies, following } = *self;
        Shape { classes, servers, depth, len_max, dependencies, following }
    }
}

/// The tiers given in a spec.
struct TierSpec {
    /// `cmin` of each tier, followed by delta-C if there is one.
    rates: Vec<u64>,
    within: Vec<Nanos>,
}

impl TierSpec {
    fn new(spec: &Spec) -> Result<TierSpec, SpecError> {
        let rates = rates(spec, "cmin")?;
        let bounds: String = spec.get("delta-ms", "10".to_string(), "milliseconds")?;
        let millis = |text: &str| {
            let wrong = || error(spec, "delta-ms", text, &format!("{BOUND}, one for each tier"));
            let ms: f64 = text.parse().map_err(|_| wrong())?;
            let within = Nanos::from_millis_f64(ms);
            if within > Nanos::ZERO && ms <= 86_400_000.0 { Ok(within) } else { Err(wrong()) }
        };
        let within: Vec<Nanos> = bounds.split('/').map(millis).collect::<Result<_, _>>()?;
        if within.len() != rates.len() {
            let expected = format!("{} bounds, one for each rate in cmin", rates.len());
            return Err(error(spec, "delta-ms", &bounds, &expected));
        }
        if within.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(error(spec, "delta-ms", &bounds, "bounds that increase from tier to tier"));
        }
        for (rate, within) in rates.iter().zip(&within) {
            if u128::from(*rate) * u128::from(within.0) < u128::from(SERVICE) {
                let expected = format!("a rate that completes one request within {within}");
                return Err(error(spec, "cmin", &rate.to_string(), &expected));
            }
        }
        Ok(TierSpec { rates, within })
    }

    /// Adds the rate `delta-c`, by default one request per first bound.
    fn delta_c(&mut self, spec: &Spec) -> Result<(), SpecError> {
        let default = SERVICE.div_ceil(self.within[0].0);
        let rate = spec.get("delta-c", default, RATE)?;
        if !(1..=RATE_MAX_IOPS).contains(&rate) {
            return Err(error(spec, "delta-c", &rate.to_string(), RATE));
        }
        self.rates.push(rate);
        Ok(())
    }

    fn tiers(&self) -> Result<Classes, SpecError> {
        let tiers = self.rates.iter().zip(&self.within);
        tiers
            .map(|(rate, within)| Rtt::new(*rate, *within))
            .collect::<Result<_, _>>()
            .map(Classes::new)
    }

    /// Returns the capacity of all tiers, plus one request per first bound for the remaining
    /// requests.
    fn capacity(&self) -> Capacity {
        let scaled_iops = self.rates.iter().copied().fold(0, u64::saturating_add);
        Capacity { scaled_iops, fixed_iops: SERVICE.div_ceil(self.within[0].0) }
    }

    /// Returns the number of requests that each tier may hold.
    fn places(&self) -> Vec<u64> {
        let places = |(rate, within): (&u64, &Nanos)| {
            let whole = u128::from(*rate) * u128::from(within.0) / u128::from(SERVICE);
            u64::try_from(whole).unwrap_or(u64::MAX)
        };
        self.rates.iter().zip(&self.within).map(places).collect()
    }
}

/// Returns how a shaper follows its server's capacity, if it does.
fn following(given: &Given<'_>) -> Result<Option<Following>, SpecError> {
    let (least, most) = (given.whole("pace-min-percent")?, given.whole("pace-max-percent")?);
    if !(least..=PACE_MAX_PERCENT).contains(&most) {
        let expected = format!("pace-min-percent ({least}) to {PACE_MAX_PERCENT}");
        return Err(error(given.spec, "pace-max-percent", &most.to_string(), &expected));
    }
    let following = Following { least: Pace::percent(least), most: Pace::percent(most) };
    Ok((!given.is_first("capacity")?).then_some(following))
}

const PACE_MAX_PERCENT: u32 = 10_000;

const BOUND: &str = "milliseconds above 0, up to 86400000";
const RATE: &str = "whole requests a second from 1 to 1000000000";

/// Returns the rate given by parameter `key`, which has no default.
fn rate(spec: &Spec, key: &str) -> Result<u64, SpecError> {
    match rates(spec, key)?[..] {
        [rate] => Ok(rate),
        _ => Err(error(spec, key, "several", RATE)),
    }
}

fn rates(spec: &Spec, key: &str) -> Result<Vec<u64>, SpecError> {
    let text: String = spec.get(key, String::new(), RATE)?;
    if text.is_empty() {
        let hint = "`forebay plan capacity` finds the rate that a promise needs";
        return Err(SpecError(format!(
            "'{}': {key}: not given, expected {RATE}; {hint}",
            spec.text()
        )));
    }
    numbers(spec, key, &text, 1, RATE)
}

fn numbers(
    spec: &Spec,
    key: &str,
    text: &str,
    least: u64,
    expected: &str,
) -> Result<Vec<u64>, SpecError> {
    let number = |text: &str| {
        let number = text.parse().ok().filter(|number| (least..=RATE_MAX_IOPS).contains(number));
        number.ok_or_else(|| error(spec, key, text, expected))
    };
    text.split('/').map(number).collect()
}

fn clients(spec: &Spec) -> Result<Vec<Share>, SpecError> {
    let list = |key, default: &str, least, expected| {
        let text: String = spec.get(key, default.to_string(), expected)?;
        numbers(spec, key, &text, least, expected)
    };
    let iops = "whole requests a second from 0 (none) to 1000000000 for each stream";
    let reservations = list("reservation", "0", 0, iops)?;
    let weights = list("weight", "1", 1, "whole numbers from 1 to 1000000000 for each stream")?;
    let limits = list("limit", "0", 0, iops)?;
    let count = reservations.len().max(weights.len()).max(limits.len());
    let of = |list: &[u64], at: usize| list[at.min(list.len() - 1)];
    let client = |at| Share {
        reservation_iops: of(&reservations, at),
        weight: of(&weights, at),
        limit_iops: of(&limits, at),
    };
    let clients: Vec<Share> = (0..count).map(client).collect();
    let broken = |one: &&Share| one.limit_iops > 0 && one.reservation_iops > one.limit_iops;
    if let Some(Share { reservation_iops, limit_iops, .. }) = clients.iter().find(broken) {
        let expected = format!("at most the limit of the same stream, {limit_iops}");
        return Err(error(spec, "reservation", &reservation_iops.to_string(), &expected));
    }
    Ok(clients)
}

/// Returns the promise to each stream, for the shaper `promised`.
fn promises(spec: &Spec) -> Result<Vec<Promise>, SpecError> {
    let text: String = spec.get("cmin", String::new(), RATE)?;
    if text.is_empty() {
        // `cmin` is required, as for other shapers.
        rates(spec, "cmin")?;
    }
    let expected = "whole requests a second from 0 (no promise) to 1000000000 for each stream";
    let rates = numbers(spec, "cmin", &text, 0, expected)?;
    let weights: String = spec.get("weight", "1".to_string(), "whole numbers, by stream")?;
    let weights =
        numbers(spec, "weight", &weights, 1, "whole numbers from 1 to 1000000000 for each stream")?;
    let bounds: String = spec.get("delta-ms", "10".to_string(), "milliseconds")?;
    let bound = |text: &str| {
        let ms: Option<f64> = text.parse().ok();
        let within = ms.filter(|ms| *ms <= 86_400_000.0).map(Nanos::from_millis_f64);
        let within = within.filter(|within| *within > Nanos::ZERO);
        within.ok_or_else(|| error(spec, "delta-ms", text, &format!("{BOUND}, by stream")))
    };
    let bounds: Vec<Nanos> = bounds.split('/').map(bound).collect::<Result<_, _>>()?;
    let count = rates.len().max(weights.len()).max(bounds.len());
    let promise = |at: usize| {
        let (rate, within) = (rates[at.min(rates.len() - 1)], bounds[at.min(bounds.len() - 1)]);
        let weight = weights[at.min(weights.len() - 1)];
        if rate > 0 && u128::from(rate) * u128::from(within.0) < u128::from(SERVICE) {
            let expected = format!("a rate that completes one request within {within}");
            return Err(error(spec, "cmin", &rate.to_string(), &expected));
        }
        let kept = (rate > 0).then(|| Rtt::new(rate, within)).transpose()?;
        Ok(Promise { kept: kept.map(|rtt| (rtt, within)), weight })
    };
    (0..count).map(promise).collect()
}

fn error(spec: &Spec, key: &str, got: &str, expected: &str) -> SpecError {
    SpecError(format!("'{}': {key}: got '{got}', expected {expected}", spec.text()))
}
