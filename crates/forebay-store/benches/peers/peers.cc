// LevelDB and RocksDB under the loads of this bench: what ours.rs does to our store, done to them.
//
//   peers leveldb|rocksdb|rocksdb-disks|rocksdb-paths OPERATION FOLDER[,FOLDER...] NAME=VALUE...
//
// Operations and settings are those of job.rs. What it came to is one line of JSON. Both engines have their
// defaults but for compression, which is off, and Puts, which are synced. rocksdb-disks is RocksDB as its
// guide sets it up for disks: an auto-tuned rate limiter, levels that grow from the last one, writes handed to
// the disk as they come, read ahead in compactions. rocksdb-paths is the same over db_paths.

#include <leveldb/db.h>
#include <rocksdb/db.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/version.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

static void fail(const std::string& what) {
  std::fprintf(stderr, "peers: %s\n", what.c_str());
  std::exit(1);
}

// SplitMix64 of a number, as in job.rs.
static uint64_t mixed(uint64_t number) {
  uint64_t z = number + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

struct Job {
  std::map<std::string, std::string> settings;
  uint64_t number(const char* name) const {
    auto found = settings.find(name);
    if (found == settings.end()) fail(std::string("no ") + name);
    return std::strtoull(found->second.c_str(), nullptr, 10);
  }
  // The key of the value of that number, as in job.rs.
  std::string key(uint64_t at) const {
    char key[24];
    if (number("sequential")) {
      std::snprintf(key, sizeof key, "%016llu", (unsigned long long)at);
    } else {
      uint64_t half[2] = {mixed(2 * at), mixed(2 * at + 1)};
      std::memcpy(key, half, 16);
    }
    return std::string(key, 16);
  }
};

// Random bytes, from which values are cut: nothing compresses.
struct Pool {
  std::vector<uint64_t> words;
  explicit Pool(size_t bytes) : words(bytes / 8) {
    for (size_t at = 0; at < words.size(); at++) words[at] = mixed(~at);
  }
  const char* value(uint64_t at, size_t len) const {
    return reinterpret_cast<const char*>(words.data()) + mixed(at) % (words.size() * 8 - len);
  }
};

// What is asked of an engine.
struct Engine {
  virtual ~Engine() = default;
  virtual void put(const std::string& key, const char* value, size_t len) = 0;
  virtual bool get(const std::string& key, std::string* value) = 0;
  // Reads up to count values from a key on; answers their bytes, keys included.
  virtual uint64_t scan(const std::string& from, uint64_t count) = 0;
};

template <class Db, class Slice, class WriteOptions, class ReadOptions>
struct Of : Engine {
  std::unique_ptr<Db> db;
  void put(const std::string& key, const char* value, size_t len) override {
    WriteOptions options;
    options.sync = true;
    auto status = db->Put(options, key, Slice(value, len));
    if (!status.ok()) fail(status.ToString());
  }
  bool get(const std::string& key, std::string* value) override {
    auto status = db->Get(ReadOptions(), key, value);
    if (!status.ok() && !status.IsNotFound()) fail(status.ToString());
    return status.ok();
  }
  uint64_t scan(const std::string& from, uint64_t count) override {
    std::unique_ptr<typename std::remove_pointer<decltype(db->NewIterator(ReadOptions()))>::type> it(
        db->NewIterator(ReadOptions()));
    uint64_t bytes = 0;
    for (it->Seek(from); it->Valid() && count > 0; it->Next(), count--)
      bytes += it->key().size() + it->value().size();
    if (!it->status().ok()) fail(it->status().ToString());
    return bytes;
  }
};

using Level = Of<leveldb::DB, leveldb::Slice, leveldb::WriteOptions, leveldb::ReadOptions>;
using Rocks = Of<rocksdb::DB, rocksdb::Slice, rocksdb::WriteOptions, rocksdb::ReadOptions>;

static std::unique_ptr<Engine> open(const std::string& name, const std::vector<std::string>& folders,
                                    uint64_t path_bytes) {
  if (name == "leveldb") {
    leveldb::Options options;
    options.create_if_missing = true;
    options.compression = leveldb::kNoCompression;
    leveldb::DB* db = nullptr;
    auto status = leveldb::DB::Open(options, folders[0] + "/db", &db);
    if (!status.ok()) fail(status.ToString());
    auto engine = std::make_unique<Level>();
    engine->db.reset(db);
    return engine;
  }
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  if (name == "rocksdb-disks" || name == "rocksdb-paths") {
    // 200 MB/s at most, tuned down to what compaction needs.
    options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(
        200 << 20, 100 * 1000, 10, rocksdb::RateLimiter::Mode::kWritesOnly, true));
    options.level_compaction_dynamic_level_bytes = true;
    options.bytes_per_sync = 1 << 20;
    options.compaction_readahead_size = 2 << 20;
  } else if (name != "rocksdb") {
    fail("got " + name + ", expected leveldb, rocksdb, rocksdb-disks or rocksdb-paths");
  }
  if (name == "rocksdb-paths") {
    for (auto& folder : folders) options.db_paths.emplace_back(folder + "/path", path_bytes);
  }
  rocksdb::DB* db = nullptr;
  auto status = rocksdb::DB::Open(options, folders[0] + "/db", &db);
  if (!status.ok()) fail(status.ToString());
  auto engine = std::make_unique<Rocks>();
  engine->db.reset(db);
  return engine;
}

// What is counted by all threads.
struct Counted {
  std::atomic<uint64_t> next{0}, bytes{0}, missing{0};
};

int main(int count, char** words) {
  if (count == 2 && std::string(words[1]) == "--version") {
    std::printf("LevelDB %d.%d, RocksDB %s\n", leveldb::kMajorVersion, leveldb::kMinorVersion,
                rocksdb::GetRocksVersionAsString().c_str());
    return 0;
  }
  if (count < 4) fail("got too few words, expected an engine, an operation, folders and settings");
  Job job;
  for (int at = 4; at < count; at++) {
    std::string word = words[at];
    auto equals = word.find('=');
    if (equals == std::string::npos) fail("got " + word + ", expected NAME=VALUE");
    job.settings[word.substr(0, equals)] = word.substr(equals + 1);
  }
  std::vector<std::string> folders;
  std::stringstream list(words[3]);
  for (std::string folder; std::getline(list, folder, ',');) folders.push_back(folder);
  const std::string operation = words[2];
  const size_t len = job.number("value-bytes");
  const uint64_t limit = job.number("count"), there = job.number("there"), rate = job.number("rate");
  const uint64_t short_scan = job.number("scan");
  const double seconds_max = double(job.number("seconds"));
  const Pool pool(operation == "put" ? 32 << 20 : 2 << 20);
  auto engine = open(words[1], folders, job.settings.count("path-bytes") ? job.number("path-bytes") : 4ull << 30);

  Counted counted;
  const size_t threads = operation == "scan" ? 1 : job.number("writers");
  std::vector<std::vector<uint32_t>> took(threads);
  const auto began = Clock::now();
  auto since = [&](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  auto work = [&](size_t thread) {
    std::string value;
    for (uint64_t at; (at = counted.next++) < limit && since(began) < seconds_max;) {
      auto due = Clock::now();
      if (rate > 0) {
        due = began + std::chrono::nanoseconds(at * 1000000000 / rate);
        std::this_thread::sleep_until(due);
      }
      if (operation == "put") {
        engine->put(job.key(there + at), pool.value(at, len), len);
        counted.bytes += len;
      } else if (operation == "get") {
        bool found = engine->get(job.key(mixed(at ^ 0x5EED) % there), &value);
        counted.missing += !found;
        counted.bytes += value.size();
      } else if (operation == "range") {
        counted.bytes += engine->scan(job.key(mixed(at ^ 0x5EED) % there), short_scan);
      } else {
        counted.bytes += engine->scan("", UINT64_MAX);
      }
      took[thread].push_back(uint32_t(std::min(4e9, since(due) * 1e6)));
    }
  };
  std::vector<std::thread> running;
  for (size_t thread = 0; thread < threads; thread++) running.emplace_back(work, thread);
  for (auto& thread : running) thread.join();
  const double seconds = since(began);
  const auto closing = Clock::now();
  engine.reset();
  std::vector<uint32_t> all;
  for (auto& some : took) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  auto at = [&](double share) { return all.empty() ? 0 : all[size_t(share * double(all.size() - 1))]; };
  std::printf("{\"done\":%zu,\"bytes\":%llu,\"missing\":%llu,\"seconds\":%.6f,\"close_s\":%.6f,"
              "\"p50_us\":%u,\"p99_us\":%u,\"p999_us\":%u,\"max_us\":%u}\n",
              all.size(), (unsigned long long)counted.bytes, (unsigned long long)counted.missing, seconds,
              since(closing), at(0.5), at(0.99), at(0.999), at(1.0));
}
