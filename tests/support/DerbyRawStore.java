import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.util.Arrays;
import java.util.Properties;
import org.apache.derby.iapi.services.context.ContextManager;
import org.apache.derby.iapi.services.context.ContextService;
import org.apache.derby.iapi.services.monitor.Monitor;
import org.apache.derby.iapi.store.raw.ContainerHandle;
import org.apache.derby.iapi.store.raw.ContainerKey;
import org.apache.derby.iapi.store.raw.Page;
import org.apache.derby.iapi.store.raw.RawStoreFactory;
import org.apache.derby.iapi.store.raw.Transaction;
import org.apache.derby.iapi.types.SQLVarbit;
import org.apache.derby.impl.store.access.heap.HeapRowLocation;

/**
 * Opens page stores with the raw store of real Derby, which recovers them, and prints the rows of every container.
 *
 * Standard input: one directory a line. Output: one JSON object a line: directory, error (null when it opened) and
 * containers: by number the rows that are not deleted, columns in hex; of an index the rows of its leaves.
 */
public class DerbyRawStore {
    public static void main(String[] args) throws Exception {
        Monitor.startMonitor(new Properties(), new PrintWriter(System.err));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(look(line));
            System.out.flush();
        }
        Monitor.getMonitor().shutdown();
    }

    static String look(String directory) throws Exception {
        StringBuilder out = new StringBuilder("{\"directory\":\"" + directory + "\"");
        ContextService contexts = ContextService.getFactory();
        ContextManager context = contexts.newContextManager();
        contexts.setCurrentContextManager(context);
        try {
            if (!Monitor.startPersistentService(directory, new Properties())) {
                return out.append(",\"error\":\"no service\"}").toString();
            }
            RawStoreFactory store = (RawStoreFactory) Monitor.findService(RawStoreFactory.MODULE, directory);
            Transaction transaction = store.startTransaction(context, "look");
            StringBuilder containers = new StringBuilder();
            File[] files = new File(directory, "seg0").listFiles();
            Arrays.sort(files);
            for (File file : files) {
                if (file.getName().matches("c[0-9a-f]+\\.dat")) {
                    long number = Long.parseLong(file.getName().replaceAll("c|\\.dat", ""), 16);
                    containers.append(containers.length() == 0 ? "\"" : ",\"").append(number).append("\":");
                    containers.append(rows(transaction, number));
                }
            }
            transaction.commit();
            transaction.close();
            Monitor.getMonitor().shutdown(store);
            return out.append(",\"error\":null,\"containers\":{").append(containers).append("}}").toString();
        } catch (Exception error) {
            Throwable cause = error;
            StringBuilder text = new StringBuilder();
            for (; cause != null; cause = cause.getCause()) {
                text.append(cause).append("; ");
            }
            return out.append(",\"error\":\"").append(text.toString().replaceAll("[^ -~]|[\"\\\\]", " ")).append("\"}").toString();
        } finally {
            contexts.resetCurrentContextManager(context);
        }
    }

    static String rows(Transaction transaction, long number) throws Exception {
        ContainerHandle container =
            transaction.openContainer(new ContainerKey(0, number), ContainerHandle.MODE_READONLY);
        if (container == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder("[");
        for (Page page = container.getFirstPage(); page != null; ) {
            boolean index = number % 16 == 1;
            boolean wanted = !index || page.fetchNumFieldsAtSlot(0) == 7;
            int first = index || page.getPageNumber() == 1 ? 1 : 0;
            for (int slot = first; wanted && slot < page.recordCount(); slot++) {
                if (!page.isDeletedAtSlot(slot)) {
                    out.append(out.length() == 1 ? "" : ",").append(row(page, slot, index));
                }
            }
            long at = page.getPageNumber();
            page.unlatch();
            page = container.getNextPage(at);
        }
        container.close();
        return out.append("]").toString();
    }

    static String row(Page page, int slot, boolean index) throws Exception {
        SQLVarbit key = new SQLVarbit();
        SQLVarbit value = new SQLVarbit();
        HeapRowLocation location = new HeapRowLocation();
        Object[] columns = {key, index ? (Object) location : value};
        page.fetchFromSlot(null, slot, columns, null, false);
        String second = index ? "\"" + location + "\"" : hex(value.getBytes());
        return "[" + hex(key.getBytes()) + "," + second + "]";
    }

    static String hex(byte[] bytes) {
        StringBuilder out = new StringBuilder("\"");
        for (byte one : bytes) {
            out.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
        }
        return out.append('"').toString();
    }
}
