//! Every bound of the system has a name here, with its unit last, and relations between bounds are checked at compile
//! time. Settings may lower some of them; none raises them.

/// etcd's `--max-request-bytes` default: the size of one encoded command.
pub const REQUEST_BYTES_MAX_DEFAULT: usize = 1_536 * 1024;
/// The most that the setting may ask for.
pub const REQUEST_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Added to the request limit for what surrounds it on the wire, as etcd does.
pub const GRPC_OVERHEAD_BYTES: usize = 512 * 1024;
/// etcd's `--max-txn-ops` default: compares, successes or failures of one transaction.
pub const TXN_OPS_MAX_DEFAULT: usize = 128;
/// The most that the setting may ask for.
pub const TXN_OPS_MAX: usize = 4_096;
/// Transactions within transactions.
pub const TXN_DEPTH_MAX: usize = 4;
/// Requests that wait for an answer in one process; further ones are refused at once.
pub const REQUESTS_WAITING_MAX: usize = 16_384;
/// Bytes of proposals that wait in one process.
pub const PROPOSALS_WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Proposals gathered into one raft entry.
pub const ENTRY_BYTES_SOFT: usize = 1024 * 1024;
/// The most that a member forwards at once: the last proposal gathered may exceed the soft bound by a whole request.
pub const FORWARD_BYTES_MAX: usize = ENTRY_BYTES_SOFT + REQUEST_BYTES_MAX + GRPC_OVERHEAD_BYTES;
/// One entry: the last forwarded batch that is gathered may exceed the soft bound.
pub const ENTRY_BYTES_MAX: usize = ENTRY_BYTES_SOFT + FORWARD_BYTES_MAX;
/// One append message between peers.
pub const APPEND_BYTES_SOFT: usize = 1024 * 1024;
/// Frames gathered into one envelope on a peer stream.
pub const ENVELOPE_BYTES_SOFT: usize = 1024 * 1024;
/// One envelope on a peer stream; a longer one is a protocol error.
pub const ENVELOPE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Frames queued towards one peer; raft repeats what is dropped.
pub const PEER_QUEUE_FRAMES: usize = 4_096;
/// Committed but not yet applied entries, beyond which new requests are refused (etcd's overload gap).
pub const APPLY_LAG_ENTRIES_MAX: u64 = 5_000;
/// Log entries kept behind the flushed state for followers that lag.
pub const LOG_KEEP_ENTRIES: u64 = 5_000;
/// Bytes of log kept for them.
pub const LOG_KEEP_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of log kept while a follower is being sent a snapshot.
pub const LOG_HOLD_BYTES: usize = 128 * 1024 * 1024;
/// Bytes of log in memory in all. A member whose store cannot keep up takes in no more: as leader it orders nothing
/// further, as follower it lets the leader send again later.
pub const LOG_BYTES_MAX: usize = 256 * 1024 * 1024;
/// A range whose answer is larger than this is read and sent in pieces.
pub const RANGE_WHOLE_BYTES_MAX: usize = 64 * 1024;
/// One piece of it; a single key may be larger.
pub const RANGE_PIECE_BYTES: usize = 64 * 1024;
/// Keys of one piece.
pub const RANGE_PIECE_KEYS: usize = 512;
/// Keys that are looked at in one go for the size of an answer.
pub const RANGE_SURVEY_KEYS: usize = 8_192;
/// Bytes of pieces, of all answers together, that were read and that their clients have not taken.
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Ranges that are read in pieces at one time.
pub const LARGE_READS_MAX: usize = 4_096;
/// How long a compaction waits for a range that is read in pieces and whose client takes nothing.
pub const HOLD_IDLE_MILLIS_MAX: u64 = 30_000;
/// Responses that wait for the client of one stream of watches.
pub const WATCH_WINDOW_RESPONSES: usize = 4_096;
/// Bytes of them; one response may exceed it.
pub const WATCH_WINDOW_BYTES: usize = 4 * 1024 * 1024;
/// Watches of one stream; etcd sets no bound.
pub const WATCHES_PER_STREAM_MAX: usize = 131_072;
/// Requests of one watch stream that wait to be processed.
pub const WATCH_REQUESTS_MAX: usize = 128;
/// Revisions that are read at once for watches that are behind, as in etcd.
pub const WATCH_BATCH_REVISIONS: u64 = 1_000;
/// A response with events is closed at the first revision that takes it to this size.
pub const WATCH_BATCH_BYTES_SOFT: usize = 1024 * 1024;
/// The longest that a lease may live, in seconds; etcd's bound.
pub const LEASE_TTL_SECONDS_MAX: i64 = 9_000_000_000;
/// Leases whose remaining time one command records.
pub const LEASE_CHECKPOINTS_MAX: usize = 1_000;
/// Revokes of expired leases that are proposed and not yet applied.
pub const LEASE_REVOKES_IN_FLIGHT_MAX: usize = 1_024;
/// After an election, so many leases expire in a second at most.
pub const LEASE_EXPIRIES_PER_SECOND_MAX: u64 = 7_500;
/// Leases that one answer names as ending soon.
pub const LEASES_ENDING_MAX: usize = 10_000;
/// Lease events that wait for one stream; one that falls behind further ends.
pub const LEASE_EVENTS_WAITING_MAX: usize = 4_096;
/// Streams that keep pages up to date (`/v1/events`), for the whole process.
pub const EVENT_STREAMS_MAX: usize = 256;
/// Consumers of the change feed of one node; what each has not taken yet, in messages and bytes, before it is let go.
pub const FEED_CONSUMERS_MAX: usize = 4_096;
pub const FEED_INBOX_MESSAGES_MAX: usize = 16_384;
pub const FEED_INBOX_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Leases that one keep-alive stream holds for as long as it is connected.
pub const LEASES_HELD_MAX: usize = 1_024;
/// Answers that are kept of one session's requests.
pub const SESSION_REPLIES_MAX: usize = 64;
/// One kept answer; of a longer one only the revision is kept.
pub const SESSION_REPLY_BYTES_MAX: usize = 4 * 1024;
/// Kept answers of all sessions; when they take more, only revisions are kept.
pub const SESSIONS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Calls that one place in the queue of a lock counts.
pub const LOCK_CALLS_MAX: usize = 16;
/// Lock calls of one process that are under way or wait for their turn.
pub const LOCK_CALLS_WAITING_MAX: usize = 8_192;
/// The length of the holder id that a client chooses.
pub const HOLDER_ID_BYTES_MAX: usize = 256;
/// Lines of the log that one flush looks at to remove what was compacted.
pub const SWEEP_LINES_PER_FLUSH: usize = 1_000;
/// A store that finds its disk full checks for space this often before it gives up: about ten minutes.
pub const STORE_FULL_TRIES_MAX: u32 = 6_000;
/// Between two checks.
pub const STORE_FULL_PAUSE_MILLIS: u64 = 100;
/// Members compare the digests of their states every so many entries.
pub const DIGEST_EVERY_ENTRIES: u64 = 256;
/// Digests that are kept for members that lag.
pub const DIGESTS_KEPT_MAX: usize = 64;
/// Changes of one key in one answer.
pub const HISTORY_ANSWER_MAX: usize = 10_000;
/// Members of one cluster, those without a vote included.
pub const MEMBERS_MAX: usize = 32;
/// Members without a vote at one time; etcd's default.
pub const LEARNERS_MAX: usize = 1;
/// Addresses of one kind that a member has.
pub const MEMBER_URLS_MAX: usize = 16;
/// A member's name, or one of its addresses.
pub const MEMBER_TEXT_BYTES_MAX: usize = 1024;
/// Changes of the configuration that wait for the one before them.
pub const CHANGES_WAITING_MAX: usize = 16;
/// One document that the cluster agrees on, and its name.
pub const DOCUMENT_BYTES_MAX: usize = 512 * 1024;
pub const DOCUMENT_NAME_BYTES_MAX: usize = 256;
/// All documents together: they lie in memory.
pub const DOCUMENTS_MAX: usize = 1_024;
pub const DOCUMENTS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Users, and as many roles: they lie in memory.
pub const AUTH_NAMES_MAX: usize = 10_000;
/// A user's or a role's name.
pub const AUTH_NAME_BYTES_MAX: usize = 1_024;
/// Permissions of one role.
pub const AUTH_PERMISSIONS_MAX: usize = 4_096;
/// A bcrypt hash of a password, as text.
pub const PASSWORD_HASH_BYTES_MAX: usize = 128;
/// Auth tokens that one member holds; one more evicts the token that expires first.
pub const TOKENS_MAX: usize = 65_536;
/// One chunk of a streamed snapshot.
pub const SNAPSHOT_CHUNK_BYTES: usize = 256 * 1024;
/// Backups that are taken from one member at one time.
pub const BACKUPS_MAX: usize = 4;
/// How long the receiver of a backup may take nothing.
pub const BACKUP_IDLE_MILLIS_MAX: u64 = 60_000;

/// The longest name of a key in the mesh.
pub const MESH_NAME_BYTES_MAX: usize = 4_096;
/// A record of the mesh that would grow beyond this is refused.
pub const MESH_RECORD_BYTES_MAX: usize = 2 * REQUEST_BYTES_MAX;
/// A write that would leave more siblings is refused.
pub const MESH_SIBLINGS_MAX: usize = 32;
/// How long the mesh remembers requests at least; one whose id says that it is older is refused.
pub const MESH_REQUEST_WINDOW_MILLIS: u64 = 600_000;
/// How long requests are kept: longer than the window by the greatest difference of clocks.
pub const MESH_REQUEST_KEEP_MILLIS: u64 = 900_000;
/// How long writes are remembered that have no request id and are passed on: longer than the node where one began passes it on,
/// by differences of clocks.
pub const MESH_OPERATION_KEEP_MILLIS: u64 = 180_000;
/// Operations of one node under way, beyond which further requests are refused.
pub const MESH_OPERATIONS_MAX: usize = 65_536;
/// Rows of the mesh in memory, beyond which writes are refused until the store has caught up.
pub const MESH_OVERLAY_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The length of a segment of the mesh's log.
pub const MESH_SEGMENT_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of rows written to the log since the last flush began, beyond which the next flush starts early.
pub const MESH_FLUSH_LOG_BYTES: u64 = 128 * 1024 * 1024;
/// Hints for one replica that are kept at a time.
pub const MESH_HINTS_MAX: usize = 100_000;
/// The replication log that a node keeps for unreachable regions; older entries are left to anti-entropy.
pub const MESH_REPLICATION_LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// The most keys on a page of a scan, and the most writes in a batch.
pub const MESH_PAGE_KEYS_MAX: usize = 1_000;
/// The last changes that a node keeps in memory for followers of its feed, in bytes and in number.
pub const MESH_FEED_RING_BYTES_MAX: usize = 32 * 1024 * 1024;
pub const MESH_FEED_RING_CHANGES_MAX: usize = 65_536;
/// Keys of which a follower of a feed remembers what it told of them.
pub const MESH_FEED_TOLD_MAX: usize = 65_536;
/// Followers whose question waits at a node for a change.
pub const MESH_FEED_WAITERS_MAX: usize = 256;

const _: () = assert!(MESH_RECORD_BYTES_MAX + MESH_NAME_BYTES_MAX < ENVELOPE_BYTES_MAX);
const _: () = assert!(DOCUMENT_BYTES_MAX + DOCUMENT_NAME_BYTES_MAX < REQUEST_BYTES_MAX_DEFAULT);
const _: () = assert!(REQUEST_BYTES_MAX < RESPONSE_BYTES_MAX, "the largest value is one piece of an answer");
const _: () = assert!(REQUEST_BYTES_MAX_DEFAULT <= REQUEST_BYTES_MAX);
const _: () = assert!(TXN_OPS_MAX_DEFAULT <= TXN_OPS_MAX);
const _: () = assert!(
    ENTRY_BYTES_MAX + APPEND_BYTES_SOFT + ENVELOPE_BYTES_SOFT < ENVELOPE_BYTES_MAX,
    "an envelope must hold the largest append message"
);
const _: () = assert!(LOG_KEEP_BYTES < LOG_HOLD_BYTES && LOG_HOLD_BYTES + ENTRY_BYTES_MAX < LOG_BYTES_MAX);
const _: () = assert!(PROPOSALS_WAITING_BYTES_MAX >= 4 * REQUEST_BYTES_MAX);
const _: () = assert!(WATCH_BATCH_BYTES_SOFT <= WATCH_WINDOW_BYTES);
