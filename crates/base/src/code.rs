//! Refusals: the errors that the system returns to clients. The enum is closed, and one table gives every code its
//! gRPC code, etcd's exact message, HTTP status and exit code. Clients match on the message, so the strings are part
//! of the wire contract.

use std::fmt;

/// gRPC status codes by their number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GrpcCode {
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl GrpcCode {
    /// The code of this number on the wire; none for success and for codes that no refusal uses.
    pub const fn from_number(number: u8) -> Option<GrpcCode> {
        Some(match number {
            1 => GrpcCode::Cancelled,
            2 => GrpcCode::Unknown,
            3 => GrpcCode::InvalidArgument,
            4 => GrpcCode::DeadlineExceeded,
            5 => GrpcCode::NotFound,
            7 => GrpcCode::PermissionDenied,
            8 => GrpcCode::ResourceExhausted,
            9 => GrpcCode::FailedPrecondition,
            11 => GrpcCode::OutOfRange,
            12 => GrpcCode::Unimplemented,
            13 => GrpcCode::Internal,
            14 => GrpcCode::Unavailable,
            15 => GrpcCode::DataLoss,
            16 => GrpcCode::Unauthenticated,
            _ => return None,
        })
    }

    /// The HTTP status that a gRPC gateway gives for the code.
    pub const fn http_status(self) -> u16 {
        match self {
            GrpcCode::Cancelled => 499,
            GrpcCode::InvalidArgument | GrpcCode::FailedPrecondition | GrpcCode::OutOfRange => 400,
            GrpcCode::Unauthenticated => 401,
            GrpcCode::PermissionDenied => 403,
            GrpcCode::NotFound => 404,
            GrpcCode::ResourceExhausted => 429,
            GrpcCode::Unknown | GrpcCode::Internal | GrpcCode::DataLoss => 500,
            GrpcCode::Unimplemented => 501,
            GrpcCode::Unavailable => 503,
            GrpcCode::DeadlineExceeded => 504,
        }
    }

    /// The exit code of a command-line tool that ends on such a refusal: 2 for what the caller got wrong,
    /// 4 for what may pass by itself, 1 for the rest.
    pub const fn exit_code(self) -> u8 {
        match self {
            GrpcCode::InvalidArgument
            | GrpcCode::OutOfRange
            | GrpcCode::FailedPrecondition
            | GrpcCode::NotFound => 2,
            GrpcCode::Unavailable | GrpcCode::DeadlineExceeded | GrpcCode::ResourceExhausted => 4,
            _ => 1,
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $grpc:ident, $message:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Code { $($(#[$doc])* $name = $number,)* }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            pub const fn grpc(self) -> GrpcCode {
                match self { $(Code::$name => GrpcCode::$grpc,)* }
            }

            /// The message as etcd words it.
            pub const fn message(self) -> &'static str {
                match self { $(Code::$name => $message,)* }
            }

            /// The code of this number in a persisted reply.
            pub const fn from_number(number: u8) -> Option<Code> {
                match number { $($number => Some(Code::$name),)* _ => None }
            }
        }
    };
}

codes! {
    EmptyKey = 1, InvalidArgument, "etcdserver: key is not provided";
    KeyNotFound = 2, InvalidArgument, "etcdserver: key not found";
    ValueProvided = 3, InvalidArgument, "etcdserver: value is provided";
    LeaseProvided = 4, InvalidArgument, "etcdserver: lease is provided";
    TooManyOps = 5, InvalidArgument, "etcdserver: too many operations in txn request";
    DuplicateKey = 6, InvalidArgument, "etcdserver: duplicate key given in txn request";
    InvalidSortOption = 7, InvalidArgument, "etcdserver: invalid sort option";
    RequestTooLarge = 8, InvalidArgument, "etcdserver: request is too large";
    Compacted = 9, OutOfRange, "etcdserver: mvcc: required revision has been compacted";
    FutureRevision = 10, OutOfRange, "etcdserver: mvcc: required revision is a future revision";
    NoSpace = 11, ResourceExhausted, "etcdserver: mvcc: database space exceeded";
    Corrupt = 23, DataLoss, "etcdserver: corrupt cluster";
    DowngradeVersionFormat = 24, InvalidArgument, "etcdserver: wrong downgrade target version format";
    DowngradeVersion = 25, InvalidArgument, "etcdserver: invalid downgrade target version";
    DowngradeInProgress = 26, FailedPrecondition, "etcdserver: cluster has a downgrade job in progress";
    TooManyRequests = 12, ResourceExhausted, "etcdserver: too many requests";
    LeaseNotFound = 13, NotFound, "etcdserver: requested lease not found";
    NoLeader = 14, Unavailable, "etcdserver: no leader";
    Stopped = 15, Unavailable, "etcdserver: server stopped";
    Timeout = 16, Unavailable, "etcdserver: request timed out";
    /// Nested deeper than we walk; etcd has no bound and no message of its own for it.
    TxnTooDeep = 17, InvalidArgument, "etcdserver: too many operations in txn request";
    /// An enum value that no version of the API knows; etcd treats it as a compare that cannot be evaluated.
    UnknownCompare = 18, InvalidArgument, "etcdserver: invalid client api version";
    NotLeader = 19, FailedPrecondition, "etcdserver: not leader";
    BadLeaderTransferee = 20, FailedPrecondition, "etcdserver: bad leader transferee";
    LeaseExists = 21, FailedPrecondition, "etcdserver: lease already exists";
    LeaseTtlTooLarge = 22, OutOfRange, "etcdserver: too large lease TTL";
    /// Ours: a stream of lease events whose client does not keep up ends, so that no event is lost silently.
    LeaseEventsLost = 39, ResourceExhausted, "etcdserver: lease events were lost, begin again";
    // Requests with an id of their client's: ours, with messages in etcd's style.
    SessionUnknown = 40, FailedPrecondition, "etcdserver: request id belongs to no session";
    /// The member no longer knows whether the request was carried out; it is not carried out now.
    RequestForgotten = 41, FailedPrecondition, "etcdserver: request id is below the session's window";
    RequestIdReused = 42, InvalidArgument, "etcdserver: request id was used for another request";
    RequestIdMalformed = 43, InvalidArgument, "etcdserver: malformed request id";
    ReplyNotKept = 44, FailedPrecondition, "etcdserver: request was carried out, its reply was too large to keep";
    NotLockHolder = 50, FailedPrecondition, "althing: not lock holder";
    /// The answer names both tokens.
    Fenced = 51, FailedPrecondition, "althing: fencing token is stale";
    BadFence = 52, InvalidArgument, "althing: malformed fence";
    UnknownToken = 53, OutOfRange, "althing: fencing token was never granted";
    /// Another client deleted the key of a waiting call.
    LockLost = 54, FailedPrecondition, "althing: place in the lock queue was deleted";
    HolderIdTooLong = 55, InvalidArgument, "althing: holder id is too long";
    /// etcd's lock and election services answer in Go's own words, without a code.
    NotElected = 56, Unknown, "election: not leader";
    NoElectedLeader = 57, Unknown, "election: no leader";
    MissingLeaderKey = 58, Unknown, "\"leader\" field must be provided";
    // Members of the cluster.
    MemberExists = 60, FailedPrecondition, "etcdserver: member ID already exist";
    PeerUrlExists = 61, FailedPrecondition, "etcdserver: Peer URLs already exists";
    MemberNotFound = 62, NotFound, "etcdserver: member not found";
    NotEnoughStartedMembers = 63, FailedPrecondition, "etcdserver: re-configuration failed due to not enough started members";
    MemberNotLearner = 64, FailedPrecondition, "etcdserver: can only promote a learner member";
    LearnerNotReady = 65, FailedPrecondition, "etcdserver: can only promote a learner member which is in sync with leader";
    TooManyLearners = 66, FailedPrecondition, "etcdserver: too many learner members in cluster";
    MemberUrlsInvalid = 67, InvalidArgument, "etcdserver: given member URLs are invalid";
    UnhealthyCluster = 68, Unavailable, "etcdserver: unhealthy cluster";
    // Documents that the cluster agrees on.
    DocumentChanged = 70, FailedPrecondition, "althing: the document has another version";
    DocumentsFull = 71, ResourceExhausted, "althing: too many documents";
    BadDocument = 72, InvalidArgument, "althing: a document has a name, and is not too large";
    /// Release 0.1.0 could not take over any more once it was done.
    FormatLevelTooLow = 73, FailedPrecondition, "althing: the cluster still writes the formats of an older release: run `althing upgrade finalize` when all nodes run this one";
    // The REST API of the mesh. Its answers carry the name of the code as a word, and say what would be right.
    BadRequest = 80, InvalidArgument, "althing: the request cannot be understood";
    KeyAbsent = 81, NotFound, "althing: no such key";
    KeyDeleted = 82, NotFound, "althing: the key was deleted";
    /// The key has a value that the writer has not seen; the answer shows both.
    ConflictDetected = 83, FailedPrecondition, "althing: something is there that the writer has not seen";
    /// The write is not undone; the replicas that have it decide whether it stays.
    Indeterminate = 84, Unavailable, "althing: too few replicas have acknowledged the write, it may stay or not";
    TooFewReplicas = 85, Unavailable, "althing: too few replicas answered";
    NamespaceDiffers = 86, FailedPrecondition, "althing: the namespace exists and is different";
    NotSeenHere = 87, Unavailable, "althing: what was asked for has not arrived here yet";
    ConflictUnknown = 88, NotFound, "althing: no such conflict";
    NamespaceInUse = 89, FailedPrecondition, "althing: the namespace is not empty";
    /// From here on refusals of the mesh, for which etcd has no messages.
    WrongType = 100, FailedPrecondition, "althing: the key holds a value of another type";
    FencePassed = 101, FailedPrecondition, "althing: the fencing token has been passed";
    TooManySiblings = 102, ResourceExhausted, "althing: too many siblings, write with the context of a read";
    NumberTooLarge = 103, OutOfRange, "althing: the number would be too large";
    NotInStep = 104, Unavailable, "althing: the node is catching up with its ring";
    BadQuorum = 105, InvalidArgument, "althing: more replicas asked for than there are copies";
    TopologyBusy = 106, FailedPrecondition, "althing: the topology does not allow this change now";
    NegativeAmount = 107, InvalidArgument, "althing: a counter that only grows takes no negative amount";
    UnknownSpace = 108, NotFound, "althing: no such namespace";
    BadRegion = 110, InvalidArgument, "althing: malformed region, or one of another name has its number";
    UnknownRegion = 111, NotFound, "althing: no such region";
    /// Another region owns the key, or this one owned it in an earlier epoch.
    NotHome = 112, FailedPrecondition, "althing: another region is the home of this key";
    UnknownHandler = 113, NotFound, "althing: no such merge handler";
    /// Merging in another order, or twice, would give something else.
    LawlessHandler = 114, InvalidArgument, "althing: the handler is not commutative, associative and idempotent";
    BadHandler = 115, InvalidArgument, "althing: malformed merge handler";
    UnknownConflict = 116, NotFound, "althing: no such conflict";
    /// It owns the key, but its lease was not confirmed in time.
    HomeUnconfirmed = 117, Unavailable, "althing: too few regions confirm that this is the home of the key";
    /// Where there are several regions, a change that is decided once is decided in the key's home.
    HomeNeeded = 119, FailedPrecondition, "althing: the key needs a home region to be decided in";
    /// Between nodes: a plain write of such a key is forwarded again, to be decided by ballot.
    KeyDecided = 120, FailedPrecondition, "althing: the key is decided by ballots";
    /// Whether it was carried out is no longer known.
    RequestIdExpired = 131, FailedPrecondition, "althing: the request id is older than requests are remembered";
    /// The elements of a collection are rows of their own, for which these are not there yet.
    NotForCollections = 132, InvalidArgument, "althing: a collection takes no condition, fence, expiry, request id or stand-in yet";
    // Bounded counters.
    BelowBound = 140, FailedPrecondition, "althing: the counter would fall below its bound";
    /// Nothing was changed; the rights are on their way, or their owners are away.
    RightsElsewhere = 141, Unavailable, "althing: what may be subtracted is in other regions or with nodes that do not answer, nothing was changed";
    BoundDiffers = 142, FailedPrecondition, "althing: the counter has another bound";
    /// Several nodes change its parts, each for itself.
    NotForBoundedCounters = 143, InvalidArgument, "althing: a bounded counter takes no condition, fence, expiry or stand-in, and is not linearizable";
    /// Forged, of another key, or from before everything about the key was forgotten.
    UnknownContext = 124, InvalidArgument, "althing: the context names writes of the key that no replica knows";
    // Users, roles and permissions.
    RootUserMissing = 160, FailedPrecondition, "etcdserver: root user does not exist";
    RootRoleMissing = 161, FailedPrecondition, "etcdserver: root user does not have root role";
    UserExists = 162, FailedPrecondition, "etcdserver: user name already exists";
    /// Also of a request that names no user at all while auth is on.
    UserEmpty = 163, InvalidArgument, "etcdserver: user name is empty";
    UserNotFound = 164, FailedPrecondition, "etcdserver: user name not found";
    RoleExists = 165, FailedPrecondition, "etcdserver: role name already exists";
    RoleNotFound = 166, FailedPrecondition, "etcdserver: role name not found";
    RoleEmpty = 167, InvalidArgument, "etcdserver: role name is empty";
    AuthFailed = 168, InvalidArgument, "etcdserver: authentication failed, invalid user ID or password";
    PermissionNotGiven = 169, InvalidArgument, "etcdserver: permission not given";
    PermissionDenied = 170, PermissionDenied, "etcdserver: permission denied";
    RoleNotGranted = 171, FailedPrecondition, "etcdserver: role is not granted to the user";
    PermissionNotGranted = 172, FailedPrecondition, "etcdserver: permission is not granted to the role";
    AuthNotEnabled = 173, FailedPrecondition, "etcdserver: authentication is not enabled";
    InvalidAuthToken = 174, Unauthenticated, "etcdserver: invalid auth token";
    InvalidAuthManagement = 175, InvalidArgument, "etcdserver: invalid auth management";
    /// Users, roles or permissions changed after the request was admitted; the member that admitted it admits it again.
    AuthOldRevision = 176, InvalidArgument, "etcdserver: revision of auth store is old";
    /// etcd has no code for it and returns the message of an inner part.
    NoPasswordUser = 177, Unknown, "auth: authentication failed, password was given for no password user";
    /// Tokens are signed, and this member can read them only.
    VerifyOnly = 179, Unknown, "auth: token signing attempted with verify-only key";
    /// A user without a password is added as such.
    PasswordEmpty = 180, InvalidArgument, "althing: password is empty";
    /// Only members of the coordination store compare passwords.
    PasswordNotHere = 185, Unauthenticated, "althing: this node keeps data alone and compares no passwords: log in at a member and send the token";
    /// The node has not received the policy of users and permissions for longer than is allowed.
    PolicyTooOld = 186, Unavailable, "althing: what this node knows of users and permissions is too old";
    AuthFull = 178, ResourceExhausted, "althing: too many users, roles or permissions, or too long a name";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Code {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_read_back() {
        for code in Code::ALL {
            assert_eq!(Code::from_number(*code as u8), Some(*code));
        }
        assert_eq!(Code::from_number(0), None);
    }

    #[test]
    fn every_refusal_has_an_error_status_and_a_failing_exit_code() {
        for code in Code::ALL {
            assert!(code.grpc().http_status() >= 400, "{code:?}");
            assert!(code.grpc().exit_code() > 0, "{code:?}");
            assert_eq!(GrpcCode::from_number(code.grpc() as u8), Some(code.grpc()), "{code:?}");
            let origin = code.message().split_once(": ").map(|(origin, _)| origin);
            let in_our_words = matches!(origin, Some("etcdserver" | "althing"));
            assert!(in_our_words || code.grpc() == GrpcCode::Unknown, "{code:?}");
        }
    }
}
