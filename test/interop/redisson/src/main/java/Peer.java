import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Takes locks by Redisson as it is told on its input, a command a line, and answers each by a line. It ends with its input. */
public class Peer {
    private final RedissonClient redisson;

    private Peer(RedissonClient redisson) {
        this.redisson = redisson;
    }

    /**
     * Arguments: address of Redis, or those of a cluster's nodes with commas between them; milliseconds in which Redisson renews a
     * lock three times.
     */
    public static void main(String[] args) throws IOException {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        String[] addresses = args[0].split(",");
        if (addresses.length == 1) {
            config.useSingleServer().setAddress(args[0]).setConnectionMinimumIdleSize(2).setConnectionPoolSize(4);
        } else {
            config.useClusterServers().addNodeAddress(addresses)
                .setMasterConnectionMinimumIdleSize(2).setMasterConnectionPoolSize(4);
        }
        Peer peer = new Peer(Redisson.create(config));
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(peer.answer(line.split(" ")));
        }
        System.exit(0);
    }

    private String answer(String[] words) {
        try {
            return "ok " + run(words);
        } catch (Exception e) {
            return "error " + e;
        }
    }

    private String run(String[] words) throws InterruptedException {
        RLock lock = redisson.getLock(words[1]);
        RFencedLock fenced = redisson.getFencedLock(words[1]);
        switch (words[0]) {
            case "lock":
                lock.lock();
                return "";
            case "lockFor":
                lock.lock(Long.parseLong(words[2]), TimeUnit.MILLISECONDS);
                return "";
            case "lockFenced":
                return String.valueOf(fenced.lockAndGetToken());
            case "tryWrite":
                return String.valueOf(redisson.getReadWriteLock(words[1]).writeLock().tryLock());
            case "unlockWrite":
                redisson.getReadWriteLock(words[1]).writeLock().unlock();
                return "";
            case "tryFair":
                return String.valueOf(redisson.getFairLock(words[1]).tryLock());
            case "unlockFair":
                redisson.getFairLock(words[1]).unlock();
                return "";
            case "unlock":
                lock.unlock();
                return "";
            case "isLocked":
                return String.valueOf(lock.isLocked());
            case "isMine":
                return lock.isHeldByCurrentThread() + " " + lock.getHoldCount();
            case "remaining":
                return String.valueOf(lock.remainTimeToLive());
            case "forceUnlock":
                return String.valueOf(lock.forceUnlock());
            case "count":
                return count(lock, words[2], Integer.parseInt(words[3]));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Increments by reading, pausing and writing: without the lock some of it would get lost. */
    private String count(RLock lock, String counter, int times) throws InterruptedException {
        RBucket<String> bucket = redisson.getBucket(counter, StringCodec.INSTANCE);
        for (int i = 0; i < times; i += 1) {
            lock.lock();
            try {
                String read = bucket.get();
                Thread.sleep(1);
                bucket.set(String.valueOf((read == null ? 0 : Integer.parseInt(read)) + 1));
            } finally {
                lock.unlock();
            }
        }
        return "";
    }
}
