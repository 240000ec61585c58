"""How many messages a day the chosen datasets send, and what the queue costs a month: an estimate.

Rates are objects a day as counted or computed from the published cadence; where nobody has counted,
the range is wide and says so. Every figure is shown with the arithmetic behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tallgrass.datasets.definition import Dataset
from tallgrass.queues.aws_plan import Choice, sns_topics
from tallgrass.queues.limits import POLL_S_MAX

#: List prices of standard queues in us-east-1; other regions differ a little.
PRICE_AS_OF = "2026-06"
PRICE_PER_MILLION_USD = 0.40
FREE_REQUESTS = 1_000_000
#: Days of the month that the estimate is for.
DAYS = 30
#: SQS hands out and deletes at most so many messages a request.
_BATCH = 10
_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Objects a day, sidecars included."""

    #: None: nobody counted; one object each cadence and topic is the least.
    low: int | None
    high: int
    basis: str
    #: Datasets that `high` holds for together: it is counted once for all of them.
    family: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Messages a day of one dataset."""

    dataset: str
    low: int
    high: int
    basis: str
    family: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the queue carries and costs."""

    volumes: tuple[Volume, ...]
    messages_a_day: tuple[int, int]
    requests_a_month: tuple[int, int]
    cost_usd_a_month: tuple[float, float]
    #: How the figures come about, one step a line.
    arithmetic: tuple[str, ...]
    price: str
    not_counted: str


_GOES_SATELLITES = "2 satellites send (18 and 19)"
_NBM = Rate(
    low=None,
    high=500_000,
    basis="guess: NBM as COG and GRIB2 together 150,000-500,000",
    family="nbm",
)
_JPSS = Rate(
    low=None,
    high=300_000,
    basis="guess: all of JPSS, 3 satellites, 200,000-300,000",
    family="jpss",
)
_GOES_OTHERS = Rate(
    low=None,
    high=40_000,
    basis=f"guess: SUVI, EXIS, MAG and SEISS together 20,000; {_GOES_SATELLITES}",
    family="goes-others",
)

#: By dataset. `counted` was observed, `computed` follows from the cadence, `guess` is neither.
RATES: dict[str, Rate] = {
    "goes-abi": Rate(
        low=2 * (109_296 + 10_000),
        high=2 * (109_296 + 58_000),
        basis=f"computed: L1b, CMIP, MCMIP 109,296 and other L2 10,000-58,000; {_GOES_SATELLITES}",
    ),
    "goes-glm": Rate(
        low=8_640, high=8_640, basis=f"counted: one each 20 s = 4,320; {_GOES_SATELLITES}"
    ),
    "goes-suvi": _GOES_OTHERS,
    "goes-space": _GOES_OTHERS,
    "nexrad-l2": Rate(low=23_040, high=46_080, basis="computed: 160 sites × 144-288 volumes"),
    "nexrad-l2-chunks": Rate(
        low=1_300_000,
        high=3_200_000,
        basis="computed: 160 sites, 43-70 chunks each 4.5-10 minutes; typical 1,800,000",
    ),
    "nexrad-l3": Rate(low=1_000_000, high=2_500_000, basis="guess: 12-29 a second"),
    "mrms": Rate(low=None, high=176_000, basis="computed: at most 244 CONUS products × 720"),
    "hrrr": Rate(low=6_304, high=6_304, basis="computed: CONUS and Alaska, index files included"),
    "nwm": Rate(low=18_224, high=18_224, basis="counted: 12 configurations"),
    "gefs": Rate(low=75_000, high=75_000, basis="computed: atmosphere, index files included"),
    "gfs": Rate(low=25_000, high=40_000, basis="guess"),
    "nbm-grib2": _NBM,
    "nbm-cog": _NBM,
    "jpss-viirs": _JPSS,
    "jpss-cris": _JPSS,
    "jpss-atms": _JPSS,
    "jpss-omps": _JPSS,
    "jpss-other": _JPSS,
    "himawari": Rate(
        low=23_040, high=225_792, basis="computed: 23,040 L1b and 202,752 ISatSS tiles; L2 unknown"
    ),
}
#: All datasets without a rate of their own send 100,000-200,000 together.
_UNKNOWN = Rate(
    low=None,
    high=200_000,
    basis="guess: all datasets that nobody counted, together, at most",
    family="others",
)


def estimate(choices: Sequence[Choice], *, wait_s: int) -> Estimate:
    """Estimate messages, requests and cost for a worker that polls as configured."""
    volumes = tuple(_volume(choice) for choice in choices)
    low, high = _total(volumes)
    poll_s = max(1, min(wait_s, POLL_S_MAX))
    idle = _DAY_S // poll_s * DAYS
    # Each message is sent by one request; ten are received and deleted by one each at best.
    requests = (low * DAYS * (_BATCH + 2) // _BATCH, high * DAYS * 3 + idle)
    cost = (_cost(requests[0]), _cost(requests[1]))
    return Estimate(
        volumes=volumes,
        messages_a_day=(low, high),
        requests_a_month=requests,
        cost_usd_a_month=cost,
        arithmetic=(
            f"least: {low:,} a day × {DAYS} days × 1.2 requests = {requests[0]:,}",
            f"most: {high:,} a day × {DAYS} days × 3 requests + {idle:,} = {requests[1]:,}",
            "a message is sent alone; at best ten are received and deleted by one request each",
            f"a worker that finds nothing asks {_DAY_S:,} s / {poll_s} s × {DAYS} days = {idle:,}",
            _priced("least", requests[0], cost[0]),
            _priced("most", requests[1], cost[1]),
        ),
        price=f"SQS standard queue in us-east-1 as of {PRICE_AS_OF}: "
        f"{PRICE_PER_MILLION_USD:.2f} USD per million requests, "
        f"the first {FREE_REQUESTS:,} of an account's month free",
        not_counted="workers, database, transfer between regions, what SNS may charge for filters",
    )


def _volume(choice: Choice) -> Volume:
    dataset = choice.dataset
    rate = RATES.get(dataset.id, _UNKNOWN)
    low = _least(dataset) if rate.low is None else rate.low
    basis = rate.basis
    if choice.is_narrowed:
        # What part of the dataset a prefix takes is not known.
        low, basis = 0, f"at most, as narrowed by --prefix; whole dataset {basis}"
    return Volume(
        dataset=dataset.id,
        low=min(low, rate.high),
        high=rate.high,
        basis=basis,
        family=rate.family,
    )


def _total(volumes: Sequence[Volume]) -> tuple[int, int]:
    """Add up what is known; a bound that several datasets share counts once."""
    families: dict[str, list[Volume]] = {}
    for volume in volumes:
        families.setdefault(volume.family or volume.dataset, []).append(volume)
    highs = [max(one.high for one in family) for family in families.values()]
    lows = [sum(one.low for one in family) for family in families.values()]
    return sum(map(min, lows, highs)), sum(highs)


def _least(dataset: Dataset) -> int:
    """Return one object each cadence and topic; a model run has many more."""
    if dataset.cadence_s is None:
        return 0
    return int(_DAY_S / dataset.cadence_s) * len(sns_topics(dataset))


def _priced(word: str, requests: int, dollars: float) -> str:
    return (
        f"{word}: ({requests:,} - {FREE_REQUESTS:,} free, not below 0) × "
        f"{PRICE_PER_MILLION_USD:.2f} USD / 1,000,000 = {dollars:,.2f} USD"
    )


def _cost(requests: int) -> float:
    billed = max(0, requests - FREE_REQUESTS)
    return round(billed * PRICE_PER_MILLION_USD / 1_000_000, 2)
