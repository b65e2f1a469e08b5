use super::*;
use std::io::Write;

/// A temporary folder, which is removed when the test drops it.
pub struct Folder {
    dir: PathBuf,
    pub account: Arc<Account>,
}

impl Folder {
    pub fn new(name: &str, max_bytes: u64) -> Folder {
        Folder::below(name, max_bytes, [0; 2])
    }
    fn below(name: &str, max_bytes: u64, max_bytes_above: [u64; 2]) -> Folder {
        let top = format!("pie-quota-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(top);
        let own = dir.join("all/own");
        fs::create_dir_all(&own).unwrap();
        let quota = Quota {
            dir: own.to_str().unwrap().to_string(),
            max_bytes,
            max_bytes_above,
        };
        let account = Account::of(&quota, "/data").unwrap();
        Folder { dir, account }
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.account.root.join(name)
    }
    pub fn file(&self, name: &str) -> Arc<File> {
        Arc::new(File::create(self.path(name)).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

pub fn executor() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap()
}

/// Writes as a guest does. Returns whether there was room.
async fn write(account: &Arc<Account>, file: &Arc<File>, bytes: usize) -> bool {
    account.note(file);
    let Ok(_reserved) = account.take(&mut Wanted::of(bytes)).await else {
        return false;
    };
    (&**file).write_all(&vec![7; bytes]).unwrap();
    true
}

#[test]
fn a_folder_can_be_filled_but_not_beyond_its_quota() {
    let folder = Folder::new("fill", 1 << 20);
    let size = || measure(&folder.account.root, MOST_FOLDERS);
    executor().block_on(async {
        let file = folder.file("a");
        while write(&folder.account, &file, 4096).await {}
        assert!(size() <= 1 << 20 && size() > 900 << 10, "{}", size());
        // A deleted file takes space until it is closed.
        fs::remove_file(folder.path("a")).unwrap();
        let other = folder.file("b");
        assert!(!write(&folder.account, &other, 64 << 10).await);
        drop(file);
        assert!(write(&folder.account, &other, 64 << 10).await);
    });
    assert_eq!(folder.account.books.lock().unwrap().in_flight, 0);
}

#[test]
fn files_without_content_fill_a_folder_as_well() {
    let folder = Folder::new("empty", 1 << 20);
    let made = executor().block_on(async {
        for made in 0..1_000 {
            let Ok(_reserved) = folder.account.take(&mut Wanted::of_entry()).await else {
                return made;
            };
            folder.file(&format!("{made}"));
        }
        1_000
    });
    assert!((200..=256).contains(&made), "{made}");
}

#[test]
fn many_writers_do_not_exceed_a_quota() {
    let folder = Folder::new("many", 1 << 20);
    let executor = executor();
    let writers: Vec<_> = (0..8)
        .map(|i| {
            let (account, file) = (folder.account.clone(), folder.file(&format!("{i}")));
            executor.spawn(async move { while write(&account, &file, 5000).await {} })
        })
        .collect();
    for writer in writers {
        executor.block_on(writer).unwrap();
    }
    let size = measure(&folder.account.root, MOST_FOLDERS);
    assert!(size <= 1 << 20 && size > 768 << 10, "{size}");
}

#[test]
fn writes_go_on_while_a_folder_is_measured_and_are_counted() {
    let folder = Folder::new("while", 1 << 20);
    let account = &folder.account;
    let wanted = Wanted::of(1);
    account.books.lock().unwrap().room = 2 * wanted.bytes;
    let before = account.take_now(&wanted).unwrap();
    let mut deciding = 0;
    let Step::Measure(measurement, _ended) = account.next_step(1 << 20, &mut deciding) else {
        panic!("it has to be measured");
    };
    // Another write that needs more room waits for a later measurement.
    let mut later = 0;
    assert!(matches!(
        account.next_step(1 << 20, &mut later),
        Step::Await(_)
    ));
    drop(before); // the measurement may have missed bytes that were written meanwhile
    let during = account.take_now(&wanted).expect("no lock is held");
    measurement.run();
    let room = account.books.lock().unwrap().room;
    assert_eq!(room, (1 << 20) - 2 * wanted.bytes);
    assert!(matches!(
        account.next_step(1 << 20, &mut deciding),
        Step::Refuse
    ));
    account.books.lock().unwrap().next = Some(Instant::now() + Duration::from_secs(9));
    assert!(matches!(
        account.next_step(1 << 20, &mut later),
        Step::Pause(_)
    ));
    drop(during);
}

#[test]
fn a_measurement_that_is_never_done_holds_up_nobody() {
    let folder = Folder::new("undone", 1 << 20);
    let mut deciding = 0;
    let Step::Measure(measurement, ended) = folder.account.next_step(1, &mut deciding) else {
        panic!("it has to be measured");
    };
    drop(measurement); // as an executor does when it shuts down
    assert!(ended.has_changed().unwrap());
    assert!(matches!(
        folder.account.next_step(1, &mut deciding),
        Step::Refuse
    ));
}

#[test]
fn a_write_needs_room_in_all_folders_above() {
    let folder = Folder::below("above", 1 << 20, [256 << 10, 1 << 20]);
    let file = folder.file("a");
    let account = &folder.account;
    executor().block_on(async { while write(account, &file, 4096).await {} });
    assert!(measure(&account.root, MOST_FOLDERS) <= 256 << 10);
    let mut wanted = Wanted::of(4096);
    let short = executor()
        .block_on(account.take(&mut wanted))
        .err()
        .unwrap();
    let text = short.full();
    assert!(
        text.contains("this user's inferlets are full; together they may hold 1 MiB"),
        "{text}"
    );
}

#[test]
fn a_deleted_file_counts_as_long_as_anybody_reads_it() {
    let folder = Folder::new("readers", 1 << 20);
    executor().block_on(async {
        let file = folder.file("a");
        assert!(write(&folder.account, &file, 900 << 10).await);
        let reader = Arc::new(File::open(folder.path("a")).unwrap());
        folder.account.note(&reader);
        drop(file);
        fs::remove_file(folder.path("a")).unwrap();
        let other = folder.file("b");
        assert!(!write(&folder.account, &other, 256 << 10).await);
        // It counts once, however often it is open.
        let again = Arc::new(reader.try_clone().unwrap());
        folder.account.note(&again);
        assert!(write(&folder.account, &other, 4 << 10).await);
        drop((reader, again));
        assert!(write(&folder.account, &other, 256 << 10).await);
    });
}

#[test]
fn closed_files_are_forgotten() {
    let folder = Folder::new("closed", 1 << 30);
    executor().block_on(async {
        for i in 0..1000 {
            let file = folder.file(&format!("{i}"));
            assert!(write(&folder.account, &file, 1).await);
        }
    });
    assert!(folder.account.books.lock().unwrap().open.len() < 100);
}
