import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.persist.EntityCursor;
import com.sleepycat.persist.EntityStore;
import com.sleepycat.persist.PrimaryIndex;
import com.sleepycat.persist.StoreConfig;
import com.sleepycat.persist.model.AnnotationModel;
import com.sleepycat.persist.model.Entity;
import com.sleepycat.persist.model.KeyField;
import com.sleepycat.persist.model.Persistent;
import com.sleepycat.persist.model.PersistentProxy;
import com.sleepycat.persist.model.PrimaryKey;
import com.sleepycat.persist.model.Relationship;
import com.sleepycat.persist.model.SecondaryKey;
import java.io.File;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.*;

/** Writes an entity store with every kind of field and key into a directory, and prints what JE reads of it as JSON. */
public class Everything {
    enum Color { RED, GREEN, BLUE { @Override public String toString() { return "azure"; } } }

    @Persistent
    static class Key2 implements Comparable<Key2> {
        @KeyField(2) String name;
        @KeyField(1) int number;
        @KeyField(3) Long boxed;
        Key2() {}
        Key2(int number, String name, Long boxed) { this.number = number; this.name = name; this.boxed = boxed; }
        public int compareTo(Key2 other) { return number - other.number; }
    }

    @Persistent
    static class KeyAll {
        @KeyField(1) boolean z; @KeyField(2) byte b; @KeyField(3) char c; @KeyField(4) short s; @KeyField(5) int i;
        @KeyField(6) long l; @KeyField(7) float f; @KeyField(8) double d; @KeyField(9) String t;
        @KeyField(10) BigInteger n; @KeyField(11) Date when; @KeyField(12) Color color; @KeyField(13) BigDecimal m;
    }

    @Persistent static class Point { int x; int y; Point() {} Point(int x, int y) { this.x = x; this.y = y; } }
    @Persistent static class Point3 extends Point { int z; String label; Point next; }
    @Persistent static abstract class Shape { String id; BigInteger serial; }
    @Persistent static class Circle extends Shape { Point center; double radius; }
    @Persistent static class Poly extends Shape { Point[] points; Point3[][] grid; }
    @Persistent static class Ring { Ring next; String name; }

    @Persistent(proxyFor = Locale.class)
    static class LocaleProxy implements PersistentProxy<Locale> {
        String language; String country;
        public void initializeProxy(Locale one) { language = one.getLanguage(); country = one.getCountry(); }
        public Locale convertProxy() { return new Locale(language, country); }
    }

    @Entity
    static class Base {
        @PrimaryKey long id;
        String common;
        @SecondaryKey(relate = Relationship.MANY_TO_ONE) int group;
    }

    @Persistent
    static class Sub extends Base {
        @SecondaryKey(relate = Relationship.MANY_TO_MANY) Set<String> tags = new HashSet<>();
        @SecondaryKey(relate = Relationship.ONE_TO_MANY) int[] numbers;
        BigInteger big, negative, nullBig; BigDecimal money, tiny, round; BigInteger[] bigs; BigDecimal[] moneys;
        Object anyBig, anyInt, anyString, anyEnum, anyDate, anyArray, anyDecimal, shape;
        Color color; Color[] colors;
        boolean[] zs; byte[] bytes; char[] cs; short[] ss; int[] is; long[] ls; float[] fs; double[] ds;
        String[] texts; Object[] objects; int[][] matrix; Integer[] boxes; String[][] words;
        Boolean bz; Byte bb; Character bc; Short bs; Integer bi; Long bl; Float bf; Double bd; Date date;
        List<Object> list; LinkedList<String> linked; Set<Integer> set; TreeSet<String> sorted;
        Map<String, Object> map; TreeMap<Integer, String> tree; LinkedHashMap<String, String> lhm;
        Shape circle, poly; Point3 p3; Locale locale; Ring ring; Key2 composite;
    }

    @Entity
    static class Composite {
        @PrimaryKey Key2 key;
        String text;
        @SecondaryKey(relate = Relationship.MANY_TO_ONE) Key2 other;
        @SecondaryKey(relate = Relationship.MANY_TO_ONE) Color color;
        @SecondaryKey(relate = Relationship.MANY_TO_ONE) BigInteger big;
    }

    @Entity
    static class All {
        @PrimaryKey KeyAll key;
        String text;
        @SecondaryKey(relate = Relationship.MANY_TO_ONE, name = "cost") BigDecimal price;
    }

    @Entity static class ByBig { @PrimaryKey BigInteger id; String text; }
    @Entity static class ByDecimal { @PrimaryKey BigDecimal id; String text; }
    @Entity static class ByEnum { @PrimaryKey Color id; String text; }

    @Entity
    static class ByDate {
        @PrimaryKey Date id;
        @SecondaryKey(relate = Relationship.MANY_TO_ONE) Long boxed;
        @SecondaryKey(relate = Relationship.MANY_TO_ONE) String text;
    }

    @Entity static class Sequenced { @PrimaryKey(sequence = "ids") Integer id; float f; double d; }

    private static final String[] INTEGERS = {
        "0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "123456789012345678901234567890",
        "-123456789012345678901234567890"};
    private static final String[] DECIMALS = {
        "0", "1", "-1", "1.5", "-1.5", "0.001", "1E+5", "123456789.987654321", "-99999999999.5", "1E-200", "-1E+200",
        "-1.000000000000000000001", "1.00000000000000000000000000001"};

    public static void main(String[] args) throws Exception {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        Environment env = new Environment(new File(args[0]), config);
        StoreConfig stored = new StoreConfig();
        stored.setAllowCreate(true);
        stored.setTransactional(true);
        AnnotationModel model = new AnnotationModel();
        for (Class<?> one : new Class<?>[] {Sub.class, Point3.class, Circle.class, Poly.class, LocaleProxy.class}) {
            model.registerClass(one);
        }
        stored.setModel(model);
        EntityStore store = new EntityStore(env, "all", stored);
        PrimaryIndex<Long, Base> bases = store.getPrimaryIndex(Long.class, Base.class);
        Base base = new Base();
        base.id = 1; base.common = "base"; base.group = 3;
        bases.put(base);
        Sub empty = new Sub();
        empty.id = 2; empty.group = 4;
        bases.put(empty);
        bases.put(full());
        PrimaryIndex<Key2, Composite> composites = store.getPrimaryIndex(Key2.class, Composite.class);
        Composite first = new Composite();
        first.key = new Key2(5, "five\u0000", 6L); first.text = "t"; first.other = new Key2(-1, "o", -2L);
        first.color = Color.BLUE; first.big = new BigInteger("-300");
        composites.put(first);
        Composite second = new Composite();
        second.key = new Key2(-5, "", 0L);
        composites.put(second);
        All all = new All();
        KeyAll key = all.key = new KeyAll();
        key.z = true; key.b = -1; key.c = 'c'; key.s = -2; key.i = -3; key.l = -4; key.f = -1.5f; key.d = 2.25;
        key.t = "t"; key.n = new BigInteger("-12345678901234567890"); key.when = new Date(9); key.color = Color.GREEN;
        key.m = new BigDecimal("-12.50"); all.text = "all"; all.price = new BigDecimal("19.99");
        store.getPrimaryIndex(KeyAll.class, All.class).put(all);
        for (String text : INTEGERS) {
            ByBig one = new ByBig();
            one.id = new BigInteger(text); one.text = text;
            store.getPrimaryIndex(BigInteger.class, ByBig.class).put(one);
        }
        for (String text : DECIMALS) {
            ByDecimal one = new ByDecimal();
            one.id = new BigDecimal(text); one.text = text;
            store.getPrimaryIndex(BigDecimal.class, ByDecimal.class).put(one);
        }
        for (Color color : Color.values()) {
            ByEnum one = new ByEnum();
            one.id = color; one.text = color.name();
            store.getPrimaryIndex(Color.class, ByEnum.class).put(one);
        }
        ByDate dated = new ByDate();
        dated.id = new Date(77); dated.boxed = -9L; dated.text = "when";
        store.getPrimaryIndex(Date.class, ByDate.class).put(dated);
        for (int number = 0; number < 2; number++) {
            Sequenced one = new Sequenced();
            one.f = number; one.d = -number;
            store.getPrimaryIndex(Integer.class, Sequenced.class).put(one);
        }
        print(bases, Base.class);
        print(composites, Composite.class);
        print(store.getPrimaryIndex(KeyAll.class, All.class), All.class);
        print(store.getPrimaryIndex(BigInteger.class, ByBig.class), ByBig.class);
        print(store.getPrimaryIndex(BigDecimal.class, ByDecimal.class), ByDecimal.class);
        print(store.getPrimaryIndex(Color.class, ByEnum.class), ByEnum.class);
        print(store.getPrimaryIndex(Date.class, ByDate.class), ByDate.class);
        print(store.getPrimaryIndex(Integer.class, Sequenced.class), Sequenced.class);
        store.close();
        env.close();
    }

    private static Sub full() {
        Sub one = new Sub();
        one.id = -3; one.common = "sub \u00e4\u0000\ud83d\ude00"; one.group = -1;
        one.tags.addAll(Arrays.asList("t1", "t2")); one.numbers = new int[] {1, -2};
        one.big = new BigInteger(INTEGERS[9]); one.negative = new BigInteger("-1");
        one.money = new BigDecimal("1234.5600"); one.tiny = new BigDecimal("-0.000000000000000000001");
        one.round = new BigDecimal("1E+30"); one.bigs = new BigInteger[] {BigInteger.ZERO, null, BigInteger.TEN};
        one.moneys = new BigDecimal[] {BigDecimal.ONE, new BigDecimal("0.00")};
        one.anyBig = new BigInteger("-255"); one.anyInt = 7; one.anyString = "s"; one.anyEnum = Color.RED;
        one.anyDate = new Date(5); one.anyArray = new int[] {1}; one.anyDecimal = new BigDecimal("-7.25");
        one.color = Color.BLUE; one.colors = new Color[] {Color.RED, null, Color.BLUE};
        one.zs = new boolean[] {true, false}; one.bytes = new byte[] {-1, 1}; one.cs = new char[] {'a', '\u00e9'};
        one.ss = new short[] {-3, 4}; one.is = new int[] {Integer.MIN_VALUE, Integer.MAX_VALUE};
        one.ls = new long[] {Long.MIN_VALUE, 0, Long.MAX_VALUE};
        one.fs = new float[] {1.5f, -0.0f, Float.NaN, Float.NEGATIVE_INFINITY};
        one.ds = new double[] {1e300, -1e-300, Double.POSITIVE_INFINITY};
        one.texts = new String[] {"a", null, ""};
        one.objects = new Object[] {1, "x", null, new Point(1, 2), Color.GREEN, new BigInteger("5")};
        one.matrix = new int[][] {{1, 2}, null, {}}; one.boxes = new Integer[] {1, null};
        one.words = new String[][] {{"a"}, {}};
        one.bz = true; one.bb = (byte) -5; one.bc = 'q'; one.bs = (short) -6; one.bi = -7; one.bl = -8L;
        one.bf = -1.25f; one.bd = -2.5; one.date = new Date(-1000);
        one.list = new ArrayList<>(Arrays.asList((Object) "a", 2, null, new Point(3, 4)));
        one.linked = new LinkedList<>(Arrays.asList("l1", "l2")); one.set = new HashSet<>(Arrays.asList(8));
        one.sorted = new TreeSet<>(Arrays.asList("z", "y"));
        one.map = new HashMap<>(Map.of("k", new BigDecimal("3.14"))); one.tree = new TreeMap<>(Map.of(5, "five"));
        one.lhm = new LinkedHashMap<>(Map.of("o", "p"));
        Circle circle = new Circle();
        circle.id = "c"; circle.serial = new BigInteger("99"); circle.center = new Point(5, 6); circle.radius = 2.5;
        Point3 point = new Point3();
        point.x = 1; point.y = 2; point.z = 3; point.label = "q"; point.next = circle.center;
        Poly poly = new Poly();
        poly.id = "p"; poly.points = new Point[] {new Point(1, 1), circle.center, null};
        poly.grid = new Point3[][] {{point}, {}};
        Ring ring = new Ring();
        ring.name = "r"; ring.next = ring;
        one.circle = circle; one.shape = circle; one.poly = poly; one.p3 = point; one.ring = ring;
        one.locale = new Locale("de", "AT"); one.composite = new Key2(1, "n", 2L);
        return one;
    }

    private static <K, V> void print(PrimaryIndex<K, V> index, Class<V> kind) throws Exception {
        try (EntityCursor<V> cursor = index.entities()) {
            for (V one : cursor) {
                System.out.println("{\"entity\":" + quoted(kind.getName()) + ",\"je\":"
                    + json(one, Collections.newSetFromMap(new IdentityHashMap<>())) + "}");
            }
        }
    }

    private static String json(Object one, Set<Object> above) throws Exception {
        if (one == null) return "null";
        if (one instanceof Enum) return quoted(((Enum<?>) one).name());
        if (one instanceof BigDecimal) return quoted(one.toString());
        if (one instanceof Float || one instanceof Double) {
            double value = ((Number) one).doubleValue();
            String word = Double.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
            return Double.isFinite(value) ? one.toString() : quoted(word);
        }
        if (one instanceof Number || one instanceof Boolean) return one.toString();
        if (one instanceof String || one instanceof Character) return quoted(one.toString());
        if (one instanceof Date) return "{\"time_ms\":" + ((Date) one).getTime() + "}";
        if (one instanceof Locale) {
            return "{\"class\":\"java.util.Locale\",\"language\":" + quoted(((Locale) one).getLanguage())
                + ",\"country\":" + quoted(((Locale) one).getCountry()) + "}";
        }
        if (one instanceof byte[]) return "{\"hex\":" + quoted(String.format("%x", new BigInteger(1, (byte[]) one))) + "}";
        if (!above.add(one)) return "\"above\"";
        StringJoiner out = new StringJoiner(",");
        String begin = "[", end = "]";
        if (one.getClass().isArray()) {
            for (int at = 0; at < Array.getLength(one); at++) out.add(json(Array.get(one, at), above));
        } else if (one instanceof Collection) {
            for (Object item : (Collection<?>) one) out.add(json(item, above));
        } else if (one instanceof Map) {
            begin = "{\"entries\":["; end = "]}";
            for (Map.Entry<?, ?> item : ((Map<?, ?>) one).entrySet()) {
                out.add("[" + json(item.getKey(), above) + "," + json(item.getValue(), above) + "]");
            }
        } else {
            begin = "{\"class\":" + quoted(one.getClass().getName()) + ","; end = "}";
            for (Class<?> level = one.getClass(); level != Object.class; level = level.getSuperclass()) {
                for (Field field : level.getDeclaredFields()) {
                    if (Modifier.isStatic(field.getModifiers())) continue;
                    field.setAccessible(true);
                    out.add(quoted(field.getName()) + ":" + json(field.get(one), above));
                }
            }
        }
        above.remove(one);
        return begin + out + end;
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            boolean plain = letter >= 32 && letter < 127 && letter != '"' && letter != '\\';
            out.append(plain ? String.valueOf(letter) : String.format("\\u%04x", (int) letter));
        }
        return out.append("\"").toString();
    }
}
