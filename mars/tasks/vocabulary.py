"""The small world that the tasks speak of."""

PEOPLE = (
    "Ana", "Ben", "Cora", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ivy", "Jack", "Kira", "Leo", "Mia", "Noah", "Olga",
    "Paul", "Rosa", "Sam", "Tina", "Vera",
)  # fmt: skip
CITIES = ("Toulouse", "Seattle", "Charleston", "Lima", "Oslo", "Kyoto", "Cairo", "Quito", "Porto", "Delhi")
ITEMS = (
    "apples", "pencils", "stickers", "marbles", "books", "shells", "coins", "stamps", "cards", "balloons", "buttons",
    "flowers", "cookies", "stones",
)  # fmt: skip
COLORS = ("red", "blue", "green", "yellow", "black", "white", "purple", "orange")
ANIMALS = ("fox", "owl", "cat", "dog", "horse", "rabbit", "bear", "duck", "goat", "mouse")
PLACES = ("river", "garden", "forest", "market", "station", "library", "harbor", "bridge", "school", "tower")
FRUITS = ("apple", "pear", "plum", "cherry", "banana", "grape", "lemon", "peach")
VEGETABLES = ("carrot", "onion", "potato", "pepper", "cabbage", "bean", "leek", "radish")
TOOLS = ("hammer", "saw", "drill", "wrench", "pliers", "chisel", "ruler", "file")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
TIMES = {2: "twice", 3: "three times", 4: "four times"}
